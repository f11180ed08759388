// The tensors that may leave a task, as its owner lists them. A graph that sends another one is refused before it runs.
//
// The list is of names. It finds a graph that sends more than was agreed, by mistake or by a default of the placement.
// It says nothing of the computation behind a listed name: for that, read the graph.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

using SendList = std::set<std::string, std::less<>>;  // "activations", "split:1": Output::name

// One tensor a line; "#" begins a comment. INVALID_ARGUMENT names the line: more than one word, a control edge, a port
// that is no number.
StatusOr<SendList> ParseSendList(std::string_view text);

// Whether `graph`, which runs on `task`, sends listed tensors alone: to other tasks, to itself, or as fetches.
// Constants are sent freely, as the author of the graph knows them; so is a listed tensor rounded to bfloat16.
// PERMISSION_DENIED names the tensors and their receivers.
Status CheckSends(const Graph& graph, const SendList& listed, std::string_view task);

}  // namespace rivulet
