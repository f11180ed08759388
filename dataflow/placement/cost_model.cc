#include "dataflow/placement/cost_model.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/graphdef/proto_conversion.h"
#include "engine/program/program.h"
#include "engine/tensor/spec_bytes.h"
#include "proto/graph/cost_graph.pb.h"

namespace rivulet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxPorts = 65'536;

// Start times of this thread's nested instructions, for all observers: a nested program's are inside another's.
thread_local std::vector<Clock::time_point> begun;

}  // namespace

void CostModel::Record(std::string_view node, double seconds) {
  Cost& cost = nodes_.try_emplace(std::string(node)).first->second;
  cost.seconds += seconds;
  ++cost.count;
}

void CostModel::RecordBytes(std::string_view node, int port, int64_t bytes) {
  Cost& cost = nodes_.try_emplace(std::string(node)).first->second;
  if (cost.bytes.size() <= static_cast<size_t>(port)) cost.bytes.resize(static_cast<size_t>(port) + 1, -1);
  int64_t& known = cost.bytes[static_cast<size_t>(port)];
  known = std::max(known, bytes);
}

bool CostModel::measured(std::string_view node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.count > 0;
}

double CostModel::Seconds(const Node& node) const {
  const auto found = nodes_.find(node.name());
  if (found == nodes_.end() || found->second.count == 0) return kUnmeasuredSeconds;
  return found->second.seconds / static_cast<double>(found->second.count);
}

int64_t CostModel::Bytes(const Output& output) const {
  if (const auto found = nodes_.find(output.node->name()); found != nodes_.end()) {
    const auto& bytes = found->second.bytes;
    if (static_cast<size_t>(output.port) < bytes.size() && bytes[static_cast<size_t>(output.port)] >= 0)
      return bytes[static_cast<size_t>(output.port)];
  }
  double elements = 1;
  for (int64_t dim : output.shape().dims()) elements *= static_cast<double>(std::max<int64_t>(dim, 1));
  return static_cast<int64_t>(std::min(elements, 0x1p40)) * static_cast<int64_t>(SizeOf(output.dtype()));
}

void CostModel::Merge(const CostModel& other) {
  for (const auto& [name, cost] : other.nodes_) {
    Cost& mine = nodes_[name];
    mine.seconds += cost.seconds;
    mine.count += cost.count;
    for (size_t port = 0; port < cost.bytes.size(); ++port)
      if (cost.bytes[port] >= 0) RecordBytes(name, static_cast<int>(port), cost.bytes[port]);
  }
}

std::string CostModel::Serialize(const Graph& graph) const {
  proto::CostGraphDef def;
  for (const auto& node : graph.nodes()) {
    proto::CostGraphDef::Node* out = def.add_node();
    out->set_name(node->name());
    out->set_device(node->device());
    out->set_id(node->id());
    for (const Output& input : node->inputs()) {
      auto* info = out->add_input_info();
      info->set_preceding_node(input.node->id());
      info->set_preceding_port(input.port);
    }
    for (const Node* before : node->control_inputs()) out->add_control_input(before->id());
    for (size_t port = 0; port < node->outputs().size(); ++port) {
      auto* info = out->add_output_info();
      info->set_size(Bytes({node.get(), static_cast<int>(port)}));
      info->set_alias_input_port(-1);
      ToProto(node->outputs()[port].shape, info->mutable_shape());
      info->set_dtype(static_cast<proto::DataType>(node->outputs()[port].dtype));
    }
    if (measured(node->name())) {
      const int64_t microseconds = std::max<int64_t>(1, std::llround(Seconds(*node) * 1e6));
      out->set_compute_cost(microseconds);
      out->set_compute_time(microseconds);
    } else {
      out->set_inaccurate(true);
    }
  }
  return def.SerializeAsString();
}

StatusOr<CostModel> CostModel::Parse(std::string_view cost_graph_def) {
  proto::CostGraphDef def;
  const google::protobuf::LogSilencer silent;
  if (cost_graph_def.size() > (size_t{1} << 30) ||
      !def.ParseFromArray(cost_graph_def.data(), static_cast<int>(cost_graph_def.size())))
    return DataLoss("{} bytes are no CostGraphDef; they may be damaged or another format", cost_graph_def.size());
  CostModel model;
  for (const proto::CostGraphDef::Node& node : def.node()) {
    if (node.name().empty()) return InvalidArgument("a node of the cost model has no name");
    if (model.nodes_.contains(node.name())) return InvalidArgument("the cost model has two nodes '{}'", node.name());
    if (node.compute_cost() < 0 || node.compute_time() < 0)
      return InvalidArgument("the cost model gives '{}' {} us", node.name(),
                             std::min(node.compute_cost(), node.compute_time()));
    if (node.output_info_size() > kMaxPorts)
      return InvalidArgument("the cost model gives '{}' {} outputs", node.name(), node.output_info_size());
    model.nodes_.try_emplace(node.name());
    const int64_t microseconds = std::max(node.compute_cost(), node.compute_time());
    if (!node.inaccurate() && microseconds > 0) model.Record(node.name(), static_cast<double>(microseconds) * 1e-6);
    for (int port = 0; port < node.output_info_size(); ++port) {
      const int64_t bytes = node.output_info(port).size();
      if (bytes < -1)
        return InvalidArgument("the cost model gives output {} of '{}' {} bytes", port, node.name(), bytes);
      if (bytes >= 0) model.RecordBytes(node.name(), port, bytes);
    }
  }
  return model;
}

void CostObserver::Begin(const Program&, int, const KernelContext&) { begun.push_back(Clock::now()); }

Status CostObserver::End(const Program& program, int index, const KernelContext&) {
  const std::chrono::duration<double> took = Clock::now() - begun.back();
  begun.pop_back();
  if (!begun.empty()) return absl::OkStatus();
  const Instruction& instruction = program.instructions()[static_cast<size_t>(index)];
  MutexLock lock(mutex_);
  model_.Record(instruction.node, took.count());
  for (size_t port = 0; port < instruction.outputs.size(); ++port) {
    const TensorSpec& output = instruction.outputs[port];
    if (output.shape.IsFullyKnown())
      model_.RecordBytes(instruction.node, static_cast<int>(port), static_cast<int64_t>(TensorBytes(output)));
  }
  return absl::OkStatus();
}

void CostObserver::Failed(const Program&, int, const Status&) { begun.pop_back(); }

CostModel CostObserver::model() const {
  MutexLock lock(mutex_);
  return model_;
}

}  // namespace rivulet
