// The tensors that may leave a task, listed by its owner. A graph that sends any other tensor is refused at once.
//
// The list contains names. It detects graphs that send more than was agreed, by mistake or by a default of the
// placement. It does not restrict the computation behind a listed name: for that, read the graph.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet {

using SendList = std::set<std::string, std::less<>>;  // "activations", "split:1": Output::name

// Parses one tensor per line; "#" starts a comment. INVALID_ARGUMENT names the line: more than one word, a control
// edge, a port that is not a number.
StatusOr<SendList> ParseSendList(std::string_view text);

// Checks that `graph`, which runs on `task`, sends only listed tensors: to other tasks, to itself, or as fetches.
// Constants may be sent freely, because the graph's author knows them; so may a listed tensor rounded to bfloat16.
// PERMISSION_DENIED names the tensors and their receivers.
Status CheckSends(const Graph& graph, const SendList& listed, std::string_view task);

}  // namespace rivulet
