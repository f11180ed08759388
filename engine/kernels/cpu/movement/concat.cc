// Joins tensors along an axis and splits them again: strided copies.
#include <algorithm>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;

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

// Offsets of tensors with the given shapes (inputs 1, 2, …) in their concatenation along the axis in input 0.
template <typename T>
class ConcatOffsetKernel final : public Kernel {
 public:
  explicit ConcatOffsetKernel(int64_t rank) : rank_(rank) {}
  Status Run(const KernelContext& context) const override {
    int64_t axis = *InputOf<int32_t>(context, 0);
    if (axis < -rank_ || axis >= rank_) return InvalidArgument("concat_dim {} is outside rank {}", axis, rank_);
    if (axis < 0) axis += rank_;
    int64_t offset = 0;
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      const int64_t size = InputOf<T>(context, i + 1)[axis];
      T* out = OutputOf<T>(context, i);
      std::fill_n(out, rank_, T{0});
      out[axis] = static_cast<T>(offset);
      offset += size;
    }
    return absl::OkStatus();
  }

 private:
  int64_t rank_;
};

template <typename T>
StatusOr<Prepared> PrepareConcatOffset(const NodeView& node, const KernelPolicy&) {
  const Shape& first = node.inputs[1].shape;
  for (const TensorSpec& shape : node.inputs.subspan(2))
    if (shape.shape != first)
      return InvalidArgument("shapes of {} and {} axes cannot be joined", first.dim(0), shape.shape.dim(0));
  Prepared prepared;
  prepared.kernel = std::make_unique<ConcatOffsetKernel<T>>(first.dim(0));
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("ConcatV2", PrepareConcat);
RIVULET_KERNEL_OF_EVERY_SIZE("Split", PrepareSplit);
RIVULET_KERNEL_OF_EVERY_SIZE("SplitV", PrepareSplitV);
RIVULET_KERNEL_OF_EVERY_SIZE("Pack", PreparePack);
RIVULET_KERNEL_OF_EVERY_SIZE("Unpack", PrepareUnpack);
RIVULET_KERNEL("ConcatOffset", Device::kCpu, int32_t, PrepareConcatOffset<int32_t>);
RIVULET_KERNEL("ConcatOffset", Device::kCpu, int64_t, PrepareConcatOffset<int64_t>);

}  // namespace
}  // namespace rivulet
