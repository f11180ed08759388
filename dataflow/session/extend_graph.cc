#include "dataflow/session/extend_graph.h"

#include <google/protobuf/stubs/logging.h>

#include <string>
#include <vector>

#include "engine/graph/function.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// New nodes refer to old ones, and version-1 forms can only be converted as a whole. So both are parsed together, with
// the checks for untrusted files, and the new nodes are then added to the session's own graph, whose nodes are
// unchanged.
StatusOr<Graph> ExtendedGraph(const Graph& graph, std::string_view graph_def) {
  Graph extended = graph.Clone();
  // The checks of new nodes need the nodes that they refer to in the same bytes.
  proto::GraphDef added;
  const google::protobuf::LogSilencer silent;  // the Status reports damage, not stderr
  if (graph_def.size() > GraphLimits().bytes ||
      !added.ParseFromArray(graph_def.data(), static_cast<int>(graph_def.size())))
    return DataLoss("{} bytes are no GraphDef; they may be damaged or another format", graph_def.size());
  for (const proto::NodeDef& node : added.node())
    if (extended.Find(node.name()) != nullptr)
      return AlreadyExists("the session's graph has a node '{}' already; nothing was added", node.name());
  proto::GraphDef whole;
  if (!whole.ParseFromString(SerializeGraph(extended))) return Internal("the session's graph does not parse");
  whole.MergeFrom(added);
  RIVULET_ASSIGN_OR_RETURN(const Graph parsed, ParseGraph(whole.SerializeAsString()));
  for (const auto& [name, function] : parsed.functions())
    if (extended.FindFunction(name) == nullptr) RIVULET_RETURN_IF_ERROR(extended.AddFunction(function));
  std::vector<Node*> all;
  for (const auto& node : parsed.nodes()) all.push_back(node.get());
  for (const Node* node : parsed.TopologicalOrder(all)) {
    if (extended.Find(node->name()) != nullptr) continue;
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs()) spec.inputs.push_back({extended.Find(input.node->name()), input.port});
    for (const Node* before : node->control_inputs()) spec.control_inputs.push_back(extended.Find(before->name()));
    RIVULET_RETURN_IF_ERROR(extended.AddNode(std::move(spec)).status());
  }
  return extended;
}

}  // namespace rivulet
