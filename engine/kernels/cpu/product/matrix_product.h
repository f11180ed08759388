// The matrix product of a MatMul or _FusedMatMul node, for any element type.
#pragma once

#include <cstdint>

#include "engine/program/kernel.h"

namespace rivulet {

struct MatrixProduct {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// INVALID_ARGUMENT: not matrices, or sizes that do not match.
inline StatusOr<MatrixProduct> MatrixProductOf(const NodeView& node) {
  const Shape& a = node.inputs[0].shape;
  const Shape& b = node.inputs[1].shape;
  if (a.rank() != 2 || b.rank() != 2) {
    return InvalidArgument("matrices have 2 dimensions, not {} and {}", a.ToString(), b.ToString());
  }
  MatrixProduct p;
  p.transpose_a = node.attr<bool>("transpose_a");
  p.transpose_b = node.attr<bool>("transpose_b");
  p.m = a.dim(p.transpose_a ? 1 : 0);
  p.k = a.dim(p.transpose_a ? 0 : 1);
  p.n = b.dim(p.transpose_b ? 0 : 1);
  if (b.dim(p.transpose_b ? 1 : 0) != p.k) {
    return InvalidArgument("the inner dimensions of {} and {} differ", a.ToString(), b.ToString());
  }
  return p;
}

}  // namespace rivulet
