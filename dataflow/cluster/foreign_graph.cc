#include "dataflow/cluster/foreign_graph.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/verify.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {
namespace {

constexpr std::string_view kComposition = "_UnaryOpsComposition";
constexpr size_t kMostAdded = size_t{1} << 20;  // bytes, beyond as many as the graph has

bool IsForeign(const proto::NodeDef& node) {
  return node.name().starts_with('_') || node.op() == "_HostRecv" || node.op() == "_HostSend" ||
         node.op() == kComposition;
}

// Nodes of all ops but the last, which takes the place of `node`. TensorFlow applies `op_names` in their order.
// `budget`: bytes that may still be added, as each node repeats its device; what does not fit stays as it is, and is
// refused as an op that does not exist.
void Expand(proto::NodeDef* node, std::vector<proto::NodeDef>* added, size_t* budget) {
  const auto found = node->attr().find("op_names");
  if (found == node->attr().end() || node->input_size() == 0) return;
  const auto ops = found->second.list().s();  // a copy: the attribute goes
  const size_t bytes = static_cast<size_t>(ops.size()) * (node->ByteSizeLong() + 32);
  if (ops.empty() || bytes > *budget) return;
  *budget -= bytes;
  node->mutable_attr()->erase("op_names");
  for (int i = 0; i + 1 < ops.size(); ++i) {
    proto::NodeDef& link = added->emplace_back(*node);
    link.set_name(node->name() + "/op_" + std::to_string(i));
    link.set_op(ops[i]);
    node->clear_input();  // the first link has them all, control edges too
    node->add_input(link.name());
  }
  node->set_op(ops[ops.size() - 1]);
}

}  // namespace

std::string WithoutForeignNodes(std::string graph_def) {
  const google::protobuf::LogSilencer silent;
  proto::GraphDef graph;
  if (graph_def.size() > GraphLimits().bytes || CountNodes(graph_def) > GraphLimits().nodes ||
      !graph.ParseFromArray(graph_def.data(), static_cast<int>(graph_def.size())) ||
      std::none_of(graph.node().begin(), graph.node().end(), IsForeign))
    return graph_def;
  std::string prefix = "tensorflow";
  std::set<std::string_view> names;
  for (const proto::NodeDef& node : graph.node()) names.insert(node.name());
  const auto taken = [&](const proto::NodeDef& node) {
    return node.name().starts_with('_') && names.contains(prefix + node.name());
  };
  while (std::any_of(graph.node().begin(), graph.node().end(), taken)) prefix += "_";
  names.clear();  // views of names that change now
  for (proto::NodeDef& node : *graph.mutable_node()) {
    if (node.name().starts_with('_')) node.set_name(prefix + node.name());
    if (node.op() == "_HostRecv") node.set_op("_Recv");
    if (node.op() == "_HostSend") node.set_op("_Send");
    for (std::string& input : *node.mutable_input()) {
      if (input.starts_with('_')) {
        input = prefix + input;
      } else if (input.starts_with("^_")) {
        input = "^" + prefix + input.substr(1);
      }
    }
  }
  std::vector<proto::NodeDef> added;
  size_t budget = graph_def.size() + kMostAdded;
  for (proto::NodeDef& node : *graph.mutable_node())
    if (node.op() == kComposition) Expand(&node, &added, &budget);
  for (proto::NodeDef& node : added) *graph.add_node() = std::move(node);
  return graph.SerializeAsString();
}

}  // namespace rivulet
