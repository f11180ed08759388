// Reductions of strided tensors. The order in which elements are combined depends on the shape alone: along rows in 16
// virtual lanes that are joined as a tree, down columns from the first row to the last. Sums and products of floats are
// carried in double.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <vector>

#include "engine/kernels/cpu/elementwise.h"
#include "engine/kernels/cpu/reduce_f32.h"

namespace rivulet {

template <typename T>
using Carried =
    typename std::conditional_t<std::is_floating_point_v<T>, std::type_identity<double>, std::make_unsigned<T>>::type;

// A reducer: what it carries, its neutral element, how an element enters, how two partial results join, the result.
template <typename T>
struct SumReducer {
  using Carry = Carried<T>;
  static Carry Neutral() { return Carry{0}; }
  static Carry Enter(T x) { return static_cast<Carry>(x); }
  static Carry Join(Carry a, Carry b) { return static_cast<Carry>(a + b); }
  static T Result(Carry carry, int64_t) { return static_cast<T>(carry); }
  static constexpr bool kPlainSum = true;  // of the elements as they are: hidden where a derived reducer changes that
};

constexpr int64_t kReductionLanes = 16;

template <typename R, typename T>
typename R::Carry ReduceRow(const T* in, int64_t stride, int64_t count) {
  using Carry = typename R::Carry;
  Carry lanes[kReductionLanes];
  for (Carry& lane : lanes) lane = R::Neutral();
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kReductionLanes <= count; i += kReductionLanes)
      for (int64_t lane = 0; lane < kReductionLanes; ++lane) lanes[lane] = R::Join(lanes[lane], R::Enter(in[i + lane]));
  } else {
    for (; i + kReductionLanes <= count; i += kReductionLanes)
      for (int64_t lane = 0; lane < kReductionLanes; ++lane)
        lanes[lane] = R::Join(lanes[lane], R::Enter(in[(i + lane) * stride]));
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] = R::Join(lanes[lane], R::Enter(in[i * stride]));
  for (int64_t width = kReductionLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] = R::Join(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

struct ReductionPlan {
  bool rows = false;       // each result by itself; otherwise neighbouring results side by side
  StridedWalk<2> kept;     // 0: output, without gaps; 1: input
  StridedWalk<1> reduced;  // input
  int64_t count = 1;       // elements per result
};

// `dims` and `strides` of the input, per axis.
inline StatusOr<ReductionPlan> PlanReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                             const std::vector<bool>& is_reduced) {
  std::vector<int64_t> kept_dims, kept_in, reduced_dims, reduced_in;
  ReductionPlan plan;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    (is_reduced[axis] ? reduced_dims : kept_dims).push_back(dims[axis]);
    (is_reduced[axis] ? reduced_in : kept_in).push_back(strides[axis]);
    plan.rows = is_reduced[axis] || strides[axis] != 1;
    if (is_reduced[axis]) plan.count *= dims[axis];
  }
  RIVULET_ASSIGN_OR_RETURN(plan.kept, MakeWalk<2>(kept_dims, {RowMajorStrides(Shape(kept_dims)), kept_in}));
  RIVULET_ASSIGN_OR_RETURN(plan.reduced, MakeWalk<1>(reduced_dims, {reduced_in}));
  return plan;
}

template <typename R, typename T>
concept SumsFloats = std::is_same_v<T, float> && requires {
  requires R::kPlainSum;
};

// A reducer may have `static Carry Row(const T*, int64_t)`: the whole row at once, with the bits of ReduceRow.
template <typename R, typename T>
concept HasRow = requires(const T* in, int64_t count) {
  { R::Row(in, count) } -> std::same_as<typename R::Carry>;
};

template <typename R, typename T>
T ReduceOne(const ReductionPlan& plan, const T* in) {
  typename R::Carry carry = R::Neutral();
  plan.reduced.ForEachRow([&](const std::array<int64_t, 1>& at, const std::array<int64_t, 1>& stride, int64_t count) {
    if constexpr (SumsFloats<R, T>) {
      if (stride[0] == 1 && count >= kReductionLanes) {
        carry += SumRowF32(in + at[0], count);
        return;
      }
    } else if constexpr (HasRow<R, T>) {
      if (stride[0] == 1 && count >= kReductionLanes) {
        carry = R::Join(carry, R::Row(in + at[0], count));
        return;
      }
    }
    carry = R::Join(carry, ReduceRow<R>(in + at[0], stride[0], count));
  });
  return R::Result(carry, plan.count);
}

// `count` neighbouring results.
template <typename R, typename T>
void ReduceColumns(const ReductionPlan& plan, const T* in, T* out, int64_t count) {
  constexpr int64_t kBlock = 128;
  typename R::Carry carry[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t width = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < width; ++i) carry[i] = R::Neutral();
    plan.reduced.ForEachRow([&](const std::array<int64_t, 1>& at, const std::array<int64_t, 1>& stride, int64_t rows) {
      const T* row = in + begin + at[0];
      if constexpr (SumsFloats<R, T>) {
        AddRowsF32(row, stride[0], rows, carry, width);
      } else {
        for (int64_t r = 0; r < rows; ++r, row += stride[0])
          for (int64_t i = 0; i < width; ++i) carry[i] = R::Join(carry[i], R::Enter(row[i]));
      }
    });
    for (int64_t i = 0; i < width; ++i) out[begin + i] = R::Result(carry[i], plan.count);
  }
}

template <typename R, typename T>
void ReduceStrided(const ReductionPlan& plan, const T* in, T* out) {
  plan.kept.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
    if (plan.rows) {
      for (int64_t i = 0; i < count; ++i) out[at[0] + i * stride[0]] = ReduceOne<R>(plan, in + at[1] + i * stride[1]);
    } else {
      ReduceColumns<R>(plan, in + at[1], out + at[0], count);
    }
  });
}

}  // namespace rivulet
