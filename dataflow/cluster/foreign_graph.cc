#include "dataflow/cluster/foreign_graph.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/verify.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {
namespace {

bool IsForeign(const proto::NodeDef& node) {
  return node.name().starts_with('_') || node.op() == "_HostRecv" || node.op() == "_HostSend";
}

}  // namespace

std::string WithoutForeignNames(std::string graph_def) {
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
  return graph.SerializeAsString();
}

}  // namespace rivulet
