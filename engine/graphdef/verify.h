// Verifier of foreign graphs. It checks the message before anything is built from it, so that later code never sees a
// malformed graph. Checks that need types and shapes run node by node while the graph is built (Graph::AddNode).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {

// One input of a NodeDef: "node", "node:2" or "^node".
struct InputRef {
  std::string_view node;
  int port = 0;
  bool control = false;
};
// INVALID_ARGUMENT: a different form.
StatusOr<InputRef> ParseInputRef(std::string_view text);

// Verifies a graph. Each error is one sentence and names the node. RESOURCE_EXHAUSTED: more nodes or inputs than
// `limits` allow. INVALID_ARGUMENT: an invalid or duplicate name, a malformed input, a data input after a
// control input, a cycle (its nodes in order), an attribute of another kind than the op's, a shape that is
// impossible or overflows, or an op that opens files by path. NOT_FOUND: a missing input, or an unknown op
// (names the nearest). UNIMPLEMENTED: control flow by Switch and Merge, or an attribute with a meaning unknown
// here. Library functions are verified when they are extracted (engine/graphdef/function_library.h), then each
// body by this function.
Status VerifyGraph(const proto::GraphDef& graph, const GraphLimits& limits = {});

// Counts the nodes of a serialized GraphDef below 2 GiB, without function bodies and without allocation, so that a
// graph with too many nodes is refused before it is parsed. For damaged bytes: the nodes before the damage.
size_t CountNodes(std::string_view graph_def);

// Returns node indices in an order in which inputs come first; ties in the message's order. INVALID_ARGUMENT: a cycle.
// The graph must have passed the other checks.
StatusOr<std::vector<int>> BuildOrder(const proto::GraphDef& graph);

// Returns true for a value that equals an absent attribute: false, 0, empty.
bool IsNeutral(const proto::AttrValue& value);

}  // namespace rivulet
