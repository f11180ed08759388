// Inputs that must be known when a kernel is prepared: axes, permutations, sizes.
#pragma once

#include <vector>

#include "engine/program/kernel.h"

namespace rivulet {

// The integers of input `i` (int32 or int64). INVALID_ARGUMENT: they are known only at run time; `what` names them.
inline StatusOr<std::vector<int64_t>> ConstantInput(const NodeView& node, int i, std::string_view what) {
  const Tensor* value = node.constants[static_cast<size_t>(i)];
  if (value == nullptr)
    return InvalidArgument("{} '{}': {} must be known when the program is compiled; make it a constant",
                           node.node.type(), node.node.name(), what);
  std::vector<int64_t> integers;
  if (value->dtype() == DType::kInt32) {
    for (int32_t v : value->flat<int32_t>()) integers.push_back(v);
  } else if (value->dtype() == DType::kInt64) {
    for (int64_t v : value->flat<int64_t>()) integers.push_back(v);
  } else {
    return InvalidArgument("{} '{}': {} must be int32 or int64, not {}", node.node.type(), node.node.name(), what,
                           Name(value->dtype()));
  }
  return integers;
}

// A single integer.
inline StatusOr<int64_t> ConstantScalar(const NodeView& node, int i, std::string_view what) {
  RIVULET_ASSIGN_OR_RETURN(const auto integers, ConstantInput(node, i, what));
  if (integers.size() != 1)
    return InvalidArgument("{} '{}': {} must be one integer, not {}", node.node.type(), node.node.name(), what,
                           integers.size());
  return integers.front();
}

// Converts `axis` in [-rank, rank) to [0, rank); shape inference has checked its range.
inline size_t AxisOf(int64_t axis, int rank) { return static_cast<size_t>(axis < 0 ? axis + rank : axis); }

}  // namespace rivulet
