// Shapes of tensor lists. The shape of a kVariant tensor is that of its elements stacked into one tensor, [length,
// element…]. A list of lists has [length, …] of its lists' shape. If the element shape has unknown rank, or is a scalar
// (which other programs write for every variant), the whole shape is unknown.
#pragma once

#include <algorithm>
#include <vector>

#include "engine/tensor/shape.h"

namespace rivulet {

inline bool IsListShape(const Shape& shape) { return shape.known_rank() && shape.rank() > 0; }
inline int64_t ListLength(const Shape& shape) { return IsListShape(shape) ? shape.dim(0) : kUnknownDim; }
inline Shape ListElement(const Shape& shape) {
  if (!IsListShape(shape)) return Shape::UnknownRank();
  return Shape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}
inline Shape ListShape(int64_t length, const Shape& element) {
  if (!element.known_rank()) return Shape::UnknownRank();
  std::vector<int64_t> dims = {length};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  return Shape(std::move(dims));
}
// The common facts of two lists of which either may be present: a loop's variable before and after an iteration. If one
// element shape is unknown, the other's is used: a list has elements of one shape.
inline Shape CommonList(const Shape& a, const Shape& b) {
  if (!IsListShape(a)) return IsListShape(b) ? ListShape(kUnknownDim, ListElement(b)) : Shape::UnknownRank();
  if (!IsListShape(b)) return ListShape(kUnknownDim, ListElement(a));
  if (a.rank() != b.rank()) return Shape::UnknownRank();
  Shape common = a;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.dim(axis) == b.dim(axis)) continue;
    const bool known = axis > 0 && (a.dim(axis) == kUnknownDim || b.dim(axis) == kUnknownDim);
    common.set_dim(axis, known ? std::max(a.dim(axis), b.dim(axis)) : kUnknownDim);
  }
  return common;
}

}  // namespace rivulet
