// Parts of tensors, their gradient, and tiles: strided copies.
#include <numeric>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/ops/strided_slice.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

// Each axis of size d, repeated m times, is a pair of axes [m, d]; the first repeats.
StatusOr<Prepared> PrepareTile(const NodeView& node, const KernelPolicy&) {
  const Shape &input = node.inputs[0].shape, &output = node.outputs[0].shape;
  const Ints from = RowMajorStrides(input), to = RowMajorStrides(output);
  Ints dims, from_pairs, to_pairs;
  for (int axis = 0; axis < input.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t size = input.dim(axis);
    dims.insert(dims.end(), {size == 0 ? 0 : output.dim(axis) / size, size});
    from_pairs.insert(from_pairs.end(), {0, from[i]});
    to_pairs.insert(to_pairs.end(), {to[i] * size, to[i]});
  }
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, dims, std::move(to_pairs), std::move(from_pairs)));
  return PrepareCopies(node, std::move(copies));
}

int64_t OffsetOf(const Ints& index, const Ints& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0});
}

StatusOr<Prepared> PrepareSlice(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Ints begin, ConstantInput(node, 1, "begin"));
  const Shape& output = node.outputs[0].shape;
  const Ints from = RowMajorStrides(node.inputs[0].shape);
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, output.dims(), RowMajorStrides(output), from, 0, OffsetOf(begin, from)));
  return PrepareCopies(node, std::move(copies));
}

struct StridedSlicePlan {
  Ints dims, strides;  // of the larger tensor, by axis
  int64_t offset = 0;
};

// `first` is the index of the input `begin`; end and strides follow.
StatusOr<StridedSlicePlan> PlanStridedSlice(const NodeView& node, const Shape& larger, int first) {
  RIVULET_ASSIGN_OR_RETURN(const Ints begin, ConstantInput(node, first, "begin"));
  RIVULET_ASSIGN_OR_RETURN(const Ints end, ConstantInput(node, first + 1, "end"));
  RIVULET_ASSIGN_OR_RETURN(const Ints strides, ConstantInput(node, first + 2, "the strides"));
  RIVULET_ASSIGN_OR_RETURN(const auto geometry, ResolveStridedSlice(node.node.attrs(), larger, begin, end, strides));
  StridedSlicePlan plan{geometry.size, RowMajorStrides(larger), 0};
  plan.offset = OffsetOf(geometry.begin, plan.strides);
  // A step larger than the tensor is never used by a second element, but must not overflow.
  for (size_t axis = 0; axis < plan.strides.size(); ++axis)
    plan.strides[axis] = plan.dims[axis] > 1 ? plan.strides[axis] * geometry.stride[axis] : 0;
  return plan;
}

StatusOr<Prepared> PrepareStridedSlice(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const StridedSlicePlan plan, PlanStridedSlice(node, node.inputs[0].shape, 1));
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, plan.dims, RowMajorStrides(Shape(plan.dims)), plan.strides, 0, plan.offset));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareStridedSliceGrad(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const StridedSlicePlan plan, PlanStridedSlice(node, node.outputs[0].shape, 1));
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 4, 0, plan.dims, plan.strides, RowMajorStrides(Shape(plan.dims)), plan.offset));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/true);
}

StatusOr<Prepared> PrepareStridedSliceUpdate(const NodeView& node, const KernelPolicy&) {
  const Shape& input = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const StridedSlicePlan plan, PlanStridedSlice(node, input, 1));
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, input.dims(), RowMajorStrides(input), RowMajorStrides(input)));
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 4, 0, plan.dims, plan.strides, RowMajorStrides(Shape(plan.dims)), plan.offset));
  return PrepareCopies(node, std::move(copies));
}

RIVULET_KERNEL_OF_EVERY_SIZE("TensorStridedSliceUpdate", PrepareStridedSliceUpdate);
RIVULET_KERNEL_OF_EVERY_SIZE("Tile", PrepareTile);
RIVULET_KERNEL_OF_EVERY_SIZE("Slice", PrepareSlice);
RIVULET_KERNEL_OF_EVERY_SIZE("StridedSlice", PrepareStridedSlice);
RIVULET_KERNEL_OF_EVERY_SIZE("StridedSliceGrad", PrepareStridedSliceGrad);

}  // namespace
}  // namespace rivulet
