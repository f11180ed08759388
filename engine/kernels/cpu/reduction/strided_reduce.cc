#include "engine/kernels/cpu/reduction/strided_reduce.h"

#include "engine/kernels/cpu/reduction/choose.h"

namespace rivulet {
namespace {

void ReduceOne(const ReductionPlan& plan, const ReductionLoops& loops, const std::byte* in, std::byte* out) {
  alignas(8) std::byte carry[8];
  loops.neutral(carry, 1);
  plan.reduced.ForEachRow([&](const std::array<int64_t, 1>& at, const std::array<int64_t, 1>& stride, int64_t count) {
    loops.row(in + at[0] * static_cast<int64_t>(loops.element), stride[0], count, carry);
  });
  loops.results(carry, plan.count, out, 1);
}

// Computes `count` adjacent results.
void ReduceColumns(const ReductionPlan& plan, const ReductionLoops& loops, const std::byte* in, std::byte* out,
                   int64_t count) {
  const auto element = static_cast<int64_t>(loops.element);
  alignas(8) std::byte carries[8 * kReductionBlock];
  for (int64_t begin = 0; begin < count; begin += kReductionBlock) {
    const int64_t width = std::min(kReductionBlock, count - begin);
    const std::byte* from = in + begin * element;
    loops.neutral(carries, width);
    plan.reduced.ForEachRow([&](const std::array<int64_t, 1>& at, const std::array<int64_t, 1>& stride, int64_t rows) {
      loops.columns(from + at[0] * element, stride[0], rows, carries, width);
    });
    loops.results(carries, plan.count, out + begin * element, width);
  }
}

}  // namespace

StatusOr<ReductionPlan> PlanReduction(std::span<const int64_t> dims, std::span<const int64_t> strides,
                                      const std::vector<bool>& is_reduced) {
  std::vector<int64_t> kept_dims, kept_in, reduced_dims, reduced_in;
  ReductionPlan plan;
  plan.rows = ChooseReduction(dims, strides, is_reduced) == ReductionAlgorithm::kRows;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    (is_reduced[axis] ? reduced_dims : kept_dims).push_back(dims[axis]);
    (is_reduced[axis] ? reduced_in : kept_in).push_back(strides[axis]);
    if (is_reduced[axis]) plan.count *= dims[axis];
  }
  RIVULET_ASSIGN_OR_RETURN(plan.kept, MakeWalk<2>(kept_dims, {RowMajorStrides(Shape(kept_dims)), kept_in}));
  RIVULET_ASSIGN_OR_RETURN(plan.reduced, MakeWalk<1>(reduced_dims, {reduced_in}));
  return plan;
}

void ReduceStrided(const ReductionPlan& plan, const ReductionLoops& loops, const std::byte* in, std::byte* out) {
  const auto element = static_cast<int64_t>(loops.element);
  const bool one_row = plan.reduced.axes == 1 && plan.reduced.dims[0] > 0;
  plan.kept.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
    const std::byte* from = in + at[1] * element;
    std::byte* to = out + at[0] * element;
    if (!plan.rows) {
      ReduceColumns(plan, loops, from, to, count);
    } else if (one_row) {
      loops.each_row(from + plan.reduced.offsets[0] * element, stride[1], plan.reduced.strides[0][0],
                     plan.reduced.dims[0], plan.count, to, stride[0], count);
    } else {
      for (int64_t i = 0; i < count; ++i)
        ReduceOne(plan, loops, from + i * stride[1] * element, to + i * stride[0] * element);
    }
  });
}

}  // namespace rivulet
