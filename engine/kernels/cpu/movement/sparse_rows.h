// Sparse gradients: rows of a table with their indices, which may be repeated. An update with them changes these rows
// as the dense gradient (UnsortedSegmentSum) would, with the same bits, and does not access the others.
#pragma once

#include <algorithm>

#include "engine/kernels/cpu/movement/scatter.h"
#include "engine/program/memory_plan.h"

namespace rivulet {

struct RowPosition {
  int64_t row;
  int64_t position;
};

// Scratch of ForEachDistinctRow for `count` rows of `inner` elements.
template <typename T>
size_t DistinctRowsScratch(int64_t count, int64_t inner) {
  return RoundUp64(static_cast<size_t>(count) * sizeof(RowPosition)) +
         RoundUp64(static_cast<size_t>(inner) * sizeof(T));
}

// Calls f(row, sum) for each row in `indices`, ascending; sum[inner] adds the gradients of that row to 0 in their
// order. Negative indices are skipped. Indices must be valid.
template <typename T, typename F>
void ForEachDistinctRow(const IndexView& indices, int64_t count, const T* gradients, int64_t inner, std::byte* scratch,
                        F f) {
  RowPosition* order = As<RowPosition>(scratch);
  int64_t used = 0;
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t row = indices[i]; row >= 0) order[used++] = {row, i};
  std::sort(order, order + used, [](const RowPosition& a, const RowPosition& b) {
    return a.row != b.row ? a.row < b.row : a.position < b.position;
  });
  T* sum = As<T>(scratch + RoundUp64(static_cast<size_t>(count) * sizeof(RowPosition)));
  for (int64_t i = 0; i < used;) {
    const int64_t row = order[i].row;
    std::fill_n(sum, inner, T{0});
    for (; i < used && order[i].row == row; ++i)
      Combine<ScatterOp::kAdd>(sum, gradients + order[i].position * inner, inner);
    f(row, sum);
  }
}

// row -= rate · gradient, with product and difference rounded separately, as in ResourceApplyGradientDescent.
template <typename T>
void DescendRow(T* row, T rate, const T* gradient, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) row[i] = row[i] - rate * gradient[i];
}

}  // namespace rivulet
