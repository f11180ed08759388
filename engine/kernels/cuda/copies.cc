// Kernels that only move elements, by the plans of the CPU's kernels (engine/kernels/cpu/movement/copies.h), and fills.
#include "engine/kernels/cpu/movement/copies.h"

#include "engine/kernels/cuda/copies.h"
#include "engine/kernels/cuda/device_walk.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

StatusOr<std::string> WordOf(DType dtype) {
  const size_t bytes = SizeOf(dtype);
  if (bytes == 0) return Unimplemented("elements of type {} cannot be moved", Name(dtype));
  return fmt::format("uint{}_t", bytes * 8);
}

struct PlannedCopy {
  size_t input, output;
  StridedCopyArguments arguments;
};

StatusOr<Prepared> PrepareCopies(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopies(node));
  RIVULET_ASSIGN_OR_RETURN(const std::string word, WordOf(node.outputs[0].dtype));
  std::vector<PlannedCopy> copies;
  for (const StridedCopy& copy : plan.copies) {
    PlannedCopy planned{static_cast<size_t>(copy.input), static_cast<size_t>(copy.output), {}};
    int64_t count = 1;
    for (int axis = 0; axis < copy.walk.axes; ++axis) count *= copy.walk.dims[static_cast<size_t>(axis)];
    RIVULET_ASSIGN_OR_RETURN(planned.arguments.count, CountOf(count));
    RIVULET_ASSIGN_OR_RETURN(planned.arguments.walk, DeviceWalk(copy.walk));
    if (count > 0) copies.push_back(planned);
  }
  FillArguments fill{};
  RIVULET_ASSIGN_OR_RETURN(fill.count, CountOf(node.outputs[0].shape.elements()));
  return Launching([word, copies = std::move(copies), fill, zero_first = plan.zero_first,
                    fill_input = plan.fill_input](const GpuContext& c) {
    if (zero_first || fill_input >= 0) {
      FillArguments a = fill;
      if (fill_input >= 0) a.from = InputOf<void>(c, static_cast<size_t>(fill_input));
      a.to = OutputOf<void>(c, 0);
      RIVULET_RETURN_IF_ERROR(Put(c, "fill_" + word, a));
    }
    for (const PlannedCopy& copy : copies) {
      StridedCopyArguments a = copy.arguments;
      a.from = InputOf<void>(c, copy.input);
      a.to = OutputOf<void>(c, copy.output);
      RIVULET_RETURN_IF_ERROR(Put(c, "strided_copy_" + word, a));
    }
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PrepareFill(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const std::string word, WordOf(node.outputs[0].dtype));
  FillArguments fill{};
  RIVULET_ASSIGN_OR_RETURN(fill.count, CountOf(node.outputs[0].shape.elements()));
  return Launching([word, fill](const GpuContext& c) {
    FillArguments a = fill;
    a.from = InputOf<void>(c, 1);
    a.to = OutputOf<void>(c, 0);
    return Put(c, "fill_" + word, a);
  });
}

template <int kValue>
StatusOr<Prepared> PrepareLike(const NodeView& node, const KernelPolicy&) {
  const DType dtype = node.outputs[0].dtype;
  RIVULET_ASSIGN_OR_RETURN(const std::string word, WordOf(dtype));
  FillArguments fill{};
  RIVULET_ASSIGN_OR_RETURN(fill.count, CountOf(node.outputs[0].shape.elements()));
  fill.bits = kValue == 0 ? 0 : BitsOfOne(dtype);
  return Launching(
      [word, fill](const GpuContext& c) {
        FillArguments a = fill;
        a.to = OutputOf<void>(c, 0);
        return Put(c, "fill_" + word, a);
      },
      0, {{0, 0}});
}

RIVULET_KERNEL("Transpose", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("ConcatV2", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Split", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("SplitV", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Pack", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Unpack", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Tile", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Slice", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("StridedSlice", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("StridedSliceGrad", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Pad", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("PadV2", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("MirrorPad", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("BroadcastTo", Device::kCuda, void, PrepareCopies);
RIVULET_KERNEL("Fill", Device::kCuda, void, PrepareFill);
RIVULET_KERNEL("ZerosLike", Device::kCuda, void, PrepareLike<0>);
RIVULET_KERNEL("OnesLike", Device::kCuda, void, PrepareLike<1>);

}  // namespace
}  // namespace rivulet::gpu
