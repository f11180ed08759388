#include "dataflow/session/run_trace.h"

#include <algorithm>
#include <map>
#include <thread>

#include "dataflow/placement/partition.h"
#include "dataflow/session/thread_pool.h"
#include "engine/compile/optimize.h"
#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/profile/step_stats.h"
#include "engine/tensor/spec_bytes.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {
namespace {

constexpr std::string_view kDevice = "/job:localhost/replica:0/task:0/device:CPU:0";

std::string DeviceOf(const std::string& device) { return device.empty() ? std::string(kDevice) : device; }

uint32_t ThisThread() {
  return static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id()) & 0x7fffffff);
}

// The graph of a program, as GraphDef bytes. Programs do not
// store their graphs, which are rarely requested. The passes are
// deterministic, so running them again gives the same graph.
std::string GraphOf(const PlanPart& part, const Program& program, const CompileOptions& options, bool shapes) {
  // The input of Compile, which it does not keep.
  const StatusOr<OptimizedGraph> optimized = OptimizeGraph(*part.graph, program.signature(), options);
  if (!optimized.ok()) return "";
  proto::GraphDef graph;
  if (!graph.ParseFromString(SerializeGraph(optimized->graph))) return "";
  for (proto::NodeDef& node : *graph.mutable_node()) {
    if (node.device().empty() && !part.device.empty()) node.set_device(part.device);
    if (!shapes) continue;
    std::vector<Shape> outputs;
    for (const TensorSpec& spec : optimized->graph.Find(node.name())->outputs()) outputs.push_back(spec.shape);
    ToProto(AttrValue(outputs), &(*node.mutable_attr())["_output_shapes"]);
  }
  return graph.SerializeAsString();
}

// Returns false, and writes nothing, for a graph that is not cut.
bool WritePartitions(const Graph& graph, bool shapes, proto::RunMetadata& metadata) {
  if (std::ranges::none_of(graph.nodes(), [](const auto& node) { return node->type() == "_Send"; })) return false;
  const auto parts = SplitByDevice(graph);
  if (!parts.ok()) return false;
  for (const auto& [device, part] : *parts) {
    proto::GraphDef& written = *metadata.add_partition_graphs();
    if (!written.ParseFromString(SerializeGraph(part)) || !shapes) continue;
    for (proto::NodeDef& node : *written.mutable_node()) {
      std::vector<Shape> outputs;
      for (const TensorSpec& spec : part.Find(node.name())->outputs()) outputs.push_back(spec.shape);
      ToProto(AttrValue(outputs), &(*node.mutable_attr())["_output_shapes"]);
    }
  }
  return true;
}

}  // namespace

void RunTrace::AddPart(const PlanPart& part, std::shared_ptr<const Program> program, const CompileOptions& options,
                       const RunRecorder* recorder) {
  PartTrace trace;
  trace.part = &part;
  if (wishes_.partition_graphs) trace.graph = GraphOf(part, *program, options, wishes_.output_shapes);
  trace.program = std::move(program);
  if (recorder != nullptr) trace.spans.assign(recorder->spans().begin(), recorder->spans().end());
  trace.thread = ThisThread();
  trace.thread_name = std::string(ThreadPool::Current());
  MutexLock lock(mutex_);
  parts_.push_back(std::move(trace));
}

void RunTrace::AddAsync(const Node& node, Clock::time_point begin, Clock::time_point end) {
  const auto nanos = [](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  AsyncTrace trace{node.name(), std::string(node.type()), DeviceOf(node.device()), nanos(begin), nanos(end),
                   ThisThread()};
  MutexLock lock(mutex_);
  asyncs_.push_back(std::move(trace));
}

void RunTrace::Write(const Graph& run_graph, proto::RunMetadata& metadata) const {
  const bool cut = wishes_.partition_graphs && WritePartitions(run_graph, wishes_.output_shapes, metadata);
  MutexLock lock(mutex_);
  std::vector<const PartTrace*> parts;
  for (const PartTrace& part : parts_) parts.push_back(&part);
  std::sort(parts.begin(), parts.end(), [](const auto* a, const auto* b) { return a->part < b->part; });
  for (const PartTrace* part : parts) {
    if (wishes_.partition_graphs && !cut) (void)metadata.add_partition_graphs()->ParseFromString(part->graph);
    if (wishes_.step_stats)
      AppendStepStats(part->spans, {DeviceOf(part->part->device), part->thread, part->thread_name},
                      *metadata.mutable_step_stats());
  }
  if (wishes_.step_stats) {
    // Spans are measured by a steady clock, and StepStats have
    // wall-clock times: one offset for all keeps their order.
    const int64_t since_epoch =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count() -
        ProfileNanos();
    for (const AsyncTrace& async : asyncs_) {
      proto::DeviceStepStats* device = nullptr;
      for (proto::DeviceStepStats& known : *metadata.mutable_step_stats()->mutable_dev_stats())
        if (known.device() == async.device) device = &known;
      if (device == nullptr) {
        device = metadata.mutable_step_stats()->add_dev_stats();
        device->set_device(async.device);
      }
      proto::NodeExecStats& node = *device->add_node_stats();
      node.set_node_name(async.name);
      node.set_timeline_label(fmt::format("{} = {}()", async.name, async.op));
      node.set_all_start_nanos(async.begin + since_epoch);
      node.set_all_start_micros((async.begin + since_epoch) / 1000);
      node.set_op_end_rel_nanos(async.end - async.begin);
      node.set_op_end_rel_micros((async.end - async.begin) / 1000);
      node.set_all_end_rel_nanos(async.end - async.begin);
      node.set_all_end_rel_micros((async.end - async.begin) / 1000);
      node.set_thread_id(async.thread);
    }
  }
  if (!wishes_.cost_graph) return;
  // One node per instruction, and per asynchronous op; edges are found by tensor names.
  proto::CostGraphDef& graph = *metadata.mutable_cost_graph();
  std::map<std::string, std::pair<int, int>> made_by;  // tensor → node, port
  for (const PartTrace* part : parts) {
    const auto instructions = part->program->instructions();
    std::vector<int64_t> nanos(instructions.size(), 0);
    for (const InstructionSpan& span : part->spans)
      if (span.program == part->program.get() && span.end > 0)
        nanos[static_cast<size_t>(span.instruction)] += span.end - span.begin;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      proto::CostGraphDef::Node& node = *graph.add_node();
      node.set_id(graph.node_size() - 1);
      const bool fetch = instruction.implementation == "fetch";
      node.set_name(fetch ? "_retval_" + instruction.node : instruction.node);
      node.set_is_final(fetch);
      node.set_device(DeviceOf(part->part->device));
      node.set_compute_cost((nanos[i] + 999) / 1000);
      node.set_compute_time((nanos[i] + 999) / 1000);
      for (const std::string& input : instruction.input_names) {
        const auto from = made_by.find(input);
        if (from == made_by.end()) continue;
        proto::CostGraphDef::Node::InputInfo& edge = *node.add_input_info();
        edge.set_preceding_node(from->second.first);
        edge.set_preceding_port(from->second.second);
      }
      int64_t output_bytes = 0;
      for (size_t port = 0; port < instruction.outputs.size(); ++port) {
        const TensorSpec& spec = instruction.outputs[port];
        proto::CostGraphDef::Node::OutputInfo& output = *node.add_output_info();
        const int64_t bytes = static_cast<int64_t>(TensorBytes(spec));
        output_bytes += bytes;
        output.set_size(bytes);
        output.set_alias_input_port(-1);
        ToProto(spec.shape, output.mutable_shape());
        output.set_dtype(static_cast<proto::DataType>(spec.dtype));
        made_by[port == 0 ? instruction.node : fmt::format("{}:{}", instruction.node, port)] = {graph.node_size() - 1,
                                                                                                static_cast<int>(port)};
      }
      node.set_temporary_memory_size(
          std::max<int64_t>(0, static_cast<int64_t>(instruction.arena_bytes) - output_bytes));
    }
  }
  for (const AsyncTrace& async : asyncs_) {
    proto::CostGraphDef::Node& node = *graph.add_node();
    node.set_id(graph.node_size() - 1);
    node.set_name(async.name);
    node.set_device(async.device);
    node.set_compute_cost((async.end - async.begin + 999) / 1000);
    node.set_compute_time((async.end - async.begin + 999) / 1000);
  }
}

}  // namespace rivulet
