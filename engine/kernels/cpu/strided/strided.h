// Walks over several tensors at once, each with its own strides: the common base of broadcasting, transposing and
// slicing. Axes that all tensors traverse alike are merged. The usual cases (one shape, a scalar, a bias over rows)
// then become one or two loops with contiguous inner ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/shape.h"

namespace rivulet {

// A walk over `Operands` tensors. Strides and offsets count elements; the first axis is the outermost.
template <int Operands>
struct StridedWalk {
  static constexpr int kMaxAxes = 12;  // after merging
  int axes = 0;                        // at least 1
  std::array<int64_t, kMaxAxes> dims{};
  std::array<std::array<int64_t, kMaxAxes>, Operands> strides{};
  std::array<int64_t, Operands> offsets{};

  // Calls f(offsets of the row's first elements, strides of its elements, length of the row) for each row in order.
  template <typename F>
  void ForEachRow(F f) const {
    const int inner = axes - 1;
    std::array<int64_t, Operands> row_strides;
    for (int o = 0; o < Operands; ++o)
      row_strides[static_cast<size_t>(o)] = strides[static_cast<size_t>(o)][static_cast<size_t>(inner)];
    std::array<int64_t, Operands> at = offsets;
    std::array<int64_t, kMaxAxes> index{};
    for (int axis = 0; axis < axes; ++axis)
      if (dims[static_cast<size_t>(axis)] == 0) return;
    while (true) {
      f(at, row_strides, dims[static_cast<size_t>(inner)]);
      int axis = inner - 1;
      for (; axis >= 0; --axis) {
        const auto a = static_cast<size_t>(axis);
        for (size_t o = 0; o < Operands; ++o) at[o] += strides[o][a];
        if (++index[a] < dims[a]) break;
        index[a] = 0;
        for (size_t o = 0; o < Operands; ++o) at[o] -= strides[o][a] * dims[a];
      }
      if (axis < 0) return;
    }
  }
};

// Merges axes. `strides[operand][axis]`. UNIMPLEMENTED: more than kMaxAxes remain.
template <int Operands>
StatusOr<StridedWalk<Operands>> MakeWalk(std::span<const int64_t> dims,
                                         const std::array<std::vector<int64_t>, Operands>& strides,
                                         const std::array<int64_t, Operands>& offsets = {}) {
  StridedWalk<Operands> walk;
  walk.offsets = offsets;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    bool merges = walk.axes > 0;
    const auto last = static_cast<size_t>(walk.axes - 1);
    for (size_t o = 0; o < Operands && merges; ++o) merges = walk.strides[o][last] == strides[o][axis] * dims[axis];
    if (merges) {
      walk.dims[last] *= dims[axis];
      for (size_t o = 0; o < Operands; ++o) walk.strides[o][last] = strides[o][axis];
      continue;
    }
    if (walk.axes == StridedWalk<Operands>::kMaxAxes)
      return Unimplemented("more than {} axes that differ in layout", StridedWalk<Operands>::kMaxAxes);
    walk.dims[static_cast<size_t>(walk.axes)] = dims[axis];
    for (size_t o = 0; o < Operands; ++o) walk.strides[o][static_cast<size_t>(walk.axes)] = strides[o][axis];
    ++walk.axes;
  }
  if (walk.axes == 0) {  // a single element
    walk.axes = 1;
    walk.dims[0] = 1;
    for (auto& operand : walk.strides) operand[0] = 1;
  }
  return walk;
}

// Row-major strides of a fully known shape.
inline std::vector<int64_t> RowMajorStrides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape.dim(axis);
  }
  return strides;
}

// Strides of `shape` broadcast to `to`: 0 along repeated axes.
inline std::vector<int64_t> BroadcastStrides(const Shape& shape, const Shape& to) {
  const std::vector<int64_t> own = RowMajorStrides(shape);
  std::vector<int64_t> strides(static_cast<size_t>(to.rank()), 0);
  const int extra = to.rank() - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape.dim(axis) != 1) strides[static_cast<size_t>(axis + extra)] = own[static_cast<size_t>(axis)];
  return strides;
}

// The walk of an output and the inputs broadcast to it; operand 0 is the output.
template <int Inputs>
StatusOr<StridedWalk<Inputs + 1>> MakeBroadcastWalk(const Shape& output, const std::array<Shape, Inputs>& inputs) {
  std::array<std::vector<int64_t>, Inputs + 1> strides;
  strides[0] = RowMajorStrides(output);
  for (size_t i = 0; i < Inputs; ++i) strides[i + 1] = BroadcastStrides(inputs[i], output);
  return MakeWalk<Inputs + 1>(output.dims(), strides);
}

}  // namespace rivulet
