// Verifier of foreign graphs. It runs on the message before anything is built from it, so that no later code sees a
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
// INVALID_ARGUMENT: not of these forms.
StatusOr<InputRef> ParseInputRef(std::string_view text);

// Each error is one sentence and names the node:
// RESOURCE_EXHAUSTED: more nodes or inputs than `limits` allow. INVALID_ARGUMENT: an invalid or duplicate name, a
// malformed input, a data input after a control input, a cycle (its nodes in order), an attribute of another kind than
// the op's, or a shape that is impossible or overflows. NOT_FOUND: an input that is not there, an unknown op (with the
// nearest known name). UNIMPLEMENTED: control flow by Switch and Merge, an attribute that means something here unknown.
// INVALID_ARGUMENT too: an op that opens files by path.
// Library functions are verified when they are taken out (engine/graphdef/function_library.h), then each body by this.
Status VerifyGraph(const proto::GraphDef& graph, const GraphLimits& limits = {});

// Nodes of a serialized GraphDef of less than 2 GiB, bodies of functions not counted, without taking memory for them: a
// graph that has too many is refused before it is parsed. Of damaged bytes: those before the damage.
size_t CountNodes(std::string_view graph_def);

// Indices of the nodes in an order in which inputs come first; ties in the order of the message.
// INVALID_ARGUMENT: a cycle. The graph passed the other checks.
StatusOr<std::vector<int>> BuildOrder(const proto::GraphDef& graph);

// True for a value that an absent attribute would mean too: false, 0, empty.
bool IsNeutral(const proto::AttrValue& value);

}  // namespace rivulet
