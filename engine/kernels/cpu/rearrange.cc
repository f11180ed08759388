// Transpose, BroadcastTo, Tile; ConcatV2, Split, SplitV, Pack, Unpack; Slice, StridedSlice and its gradient.
#include <numeric>

#include "engine/kernels/cpu/constant_input.h"
#include "engine/kernels/cpu/copies.h"
#include "engine/ops/strided_slice.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

StatusOr<Prepared> PrepareTranspose(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Ints perm, ConstantInput(node, 1, "the permutation"));
  const Ints own = RowMajorStrides(node.inputs[0].shape);
  Ints from;
  for (int64_t axis : perm) from.push_back(own[AxisOf(axis, node.inputs[0].shape.rank())]);
  const Shape& output = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, output.dims(), RowMajorStrides(output), std::move(from)));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareBroadcastTo(const NodeView& node, const KernelPolicy&) {
  const Shape& output = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, output.dims(), RowMajorStrides(output), BroadcastStrides(node.inputs[0].shape, output)));
  return PrepareCopies(node, std::move(copies));
}

// Each axis of size d, taken m times, is a pair of axes [m, d] of which the first repeats.
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

StatusOr<Prepared> PrepareConcat(const NodeView& node, const KernelPolicy&) {
  const int count = static_cast<int>(node.inputs.size()) - 1;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, count, "the axis"));
  const Shape& output = node.outputs[0].shape;
  const size_t axis = AxisOf(given, output.rank());
  const Ints to = RowMajorStrides(output);
  int64_t offset = 0;
  std::vector<StridedCopy> copies;
  for (int i = 0; i < count; ++i) {
    const Shape& input = node.inputs[static_cast<size_t>(i)].shape;
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, i, 0, input.dims(), to, RowMajorStrides(input), offset * to[axis]));
    offset += input.dim(static_cast<int>(axis));
  }
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareSplit(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 0, "the axis"));
  const Shape& input = node.inputs[1].shape;
  const size_t axis = AxisOf(given, input.rank());
  const Ints from = RowMajorStrides(input);
  const Shape& part = node.outputs[0].shape;
  std::vector<StridedCopy> copies;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, 1, i, part.dims(), RowMajorStrides(part), from, 0,
                                    i * part.dim(static_cast<int>(axis)) * from[axis]));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareSplitV(const NodeView& node, const KernelPolicy&) {
  RIVULET_RETURN_IF_ERROR(ConstantInput(node, 1, "size_splits").status());
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 2, "the axis"));
  const Shape& input = node.inputs[0].shape;
  const size_t axis = AxisOf(given, input.rank());
  const Ints from = RowMajorStrides(input);
  std::vector<StridedCopy> copies;
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) {
    const Shape& part = node.outputs[static_cast<size_t>(i)].shape;
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, i, part.dims(), RowMajorStrides(part), from, 0, offset * from[axis]));
    offset += part.dim(static_cast<int>(axis));
  }
  return PrepareCopies(node, std::move(copies));
}

// The strides of the packed tensor without its packed axis.
Ints WithoutAxis(Ints strides, size_t axis) {
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return strides;
}

StatusOr<Prepared> PreparePack(const NodeView& node, const KernelPolicy&) {
  const Shape &output = node.outputs[0].shape, &part = node.inputs[0].shape;
  const size_t axis = AxisOf(node.attr<int64_t>("axis"), output.rank());
  const Ints to = RowMajorStrides(output);
  std::vector<StridedCopy> copies;
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i)
    RIVULET_RETURN_IF_ERROR(
        AddCopy(copies, i, 0, part.dims(), WithoutAxis(to, axis), RowMajorStrides(part), i * to[axis]));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareUnpack(const NodeView& node, const KernelPolicy&) {
  const Shape &input = node.inputs[0].shape, &part = node.outputs[0].shape;
  const size_t axis = AxisOf(node.attr<int64_t>("axis"), input.rank());
  const Ints from = RowMajorStrides(input);
  std::vector<StridedCopy> copies;
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
    RIVULET_RETURN_IF_ERROR(
        AddCopy(copies, 0, i, part.dims(), RowMajorStrides(part), WithoutAxis(from, axis), 0, i * from[axis]));
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

struct SlicePlan {
  Ints dims, strides;  // of the larger tensor, per axis of it
  int64_t offset = 0;
};

// `first` is the index of the input `begin`; end and strides follow it.
StatusOr<SlicePlan> PlanStridedSlice(const NodeView& node, const Shape& larger, int first) {
  RIVULET_ASSIGN_OR_RETURN(const Ints begin, ConstantInput(node, first, "begin"));
  RIVULET_ASSIGN_OR_RETURN(const Ints end, ConstantInput(node, first + 1, "end"));
  RIVULET_ASSIGN_OR_RETURN(const Ints strides, ConstantInput(node, first + 2, "the strides"));
  RIVULET_ASSIGN_OR_RETURN(const auto geometry, ResolveStridedSlice(node.node.attrs(), larger, begin, end, strides));
  SlicePlan plan{geometry.size, RowMajorStrides(larger), 0};
  plan.offset = OffsetOf(geometry.begin, plan.strides);
  // A step beyond the tensor is taken by no second element, and must not overflow.
  for (size_t axis = 0; axis < plan.strides.size(); ++axis)
    plan.strides[axis] = plan.dims[axis] > 1 ? plan.strides[axis] * geometry.stride[axis] : 0;
  return plan;
}

StatusOr<Prepared> PrepareStridedSlice(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const SlicePlan plan, PlanStridedSlice(node, node.inputs[0].shape, 1));
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 0, 0, plan.dims, RowMajorStrides(Shape(plan.dims)), plan.strides, 0, plan.offset));
  return PrepareCopies(node, std::move(copies));
}

StatusOr<Prepared> PrepareStridedSliceGrad(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const SlicePlan plan, PlanStridedSlice(node, node.outputs[0].shape, 1));
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(
      AddCopy(copies, 4, 0, plan.dims, plan.strides, RowMajorStrides(Shape(plan.dims)), plan.offset));
  return PrepareCopies(node, std::move(copies), /*zero_first=*/true);
}

RIVULET_KERNEL_OF_EVERY_SIZE("Transpose", PrepareTranspose);
RIVULET_KERNEL_OF_EVERY_SIZE("BroadcastTo", PrepareBroadcastTo);
RIVULET_KERNEL_OF_EVERY_SIZE("Tile", PrepareTile);
RIVULET_KERNEL_OF_EVERY_SIZE("ConcatV2", PrepareConcat);
RIVULET_KERNEL_OF_EVERY_SIZE("Split", PrepareSplit);
RIVULET_KERNEL_OF_EVERY_SIZE("SplitV", PrepareSplitV);
RIVULET_KERNEL_OF_EVERY_SIZE("Pack", PreparePack);
RIVULET_KERNEL_OF_EVERY_SIZE("Unpack", PrepareUnpack);
RIVULET_KERNEL_OF_EVERY_SIZE("Slice", PrepareSlice);
RIVULET_KERNEL_OF_EVERY_SIZE("StridedSlice", PrepareStridedSlice);
RIVULET_KERNEL_OF_EVERY_SIZE("StridedSliceGrad", PrepareStridedSliceGrad);

}  // namespace
}  // namespace rivulet
