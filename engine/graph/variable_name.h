// Mapping between VarHandleOp nodes and variable names.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace rivulet {

// shared_name, or the node's name if that is empty. `handle` is a VarHandleOp.
inline std::string_view VariableName(const Node& handle) {
  const std::string* shared = handle.FindAttr<std::string>("shared_name");
  return shared == nullptr || shared->empty() ? std::string_view(handle.name()) : std::string_view(*shared);
}
// Returns the first VarHandleOp of the graph that names `variable`, or null. An index makes this independent of the
// graph's size.
Node* FindHandle(const Graph& graph, std::string_view variable);
inline DType VariableDType(const Node& handle) { return handle.attr<DType>("dtype"); }

}  // namespace rivulet
