// Pad and PadV2 as a fill and a copy; MirrorPad as a copy of each region (before, middle and after along every padded
// axis), and its gradient as the sum over them.
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

using Ints = std::vector<int64_t>;
constexpr size_t kMaxRegions = 6561;  // eight padded axes

StatusOr<Prepared> PreparePadding(const NodeView& node, bool zero_first, int fill_input) {
  RIVULET_ASSIGN_OR_RETURN(const Ints paddings, ConstantInput(node, 1, "the paddings"));
  const Shape& input = node.inputs[0].shape;
  const Ints to = RowMajorStrides(node.outputs[0].shape);
  int64_t offset = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) offset += paddings[2 * axis] * to[axis];
  std::vector<StridedCopy> copies;
  RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, input.dims(), to, RowMajorStrides(input), offset));
  return PrepareCopies(node, std::move(copies), zero_first, fill_input);
}

StatusOr<Prepared> PreparePad(const NodeView& node, const KernelPolicy&) {
  return PreparePadding(node, /*zero_first=*/true, -1);
}
StatusOr<Prepared> PreparePadV2(const NodeView& node, const KernelPolicy&) {
  return PreparePadding(node, /*zero_first=*/false, 2);
}

// A region of the padded tensor and its source; mirrored axes are traversed backwards there.
struct Region {
  Ints dims, inner_strides;
  int64_t padded_offset = 0, inner_offset = 0;
};

StatusOr<std::vector<Region>> MirrorRegions(const NodeView& node, const Shape& inner, const Shape& padded) {
  RIVULET_ASSIGN_OR_RETURN(const Ints paddings, ConstantInput(node, 1, "the paddings"));
  const int64_t skip = node.attr<std::string>("mode") == "REFLECT" ? 1 : 0;
  const Ints own = RowMajorStrides(inner), outer = RowMajorStrides(padded);
  std::vector<Region> regions = {Region{}};
  for (size_t axis = 0; axis < own.size(); ++axis) {
    const int64_t size = inner.dim(static_cast<int>(axis)), before = paddings[2 * axis], after = paddings[2 * axis + 1];
    std::vector<Region> next;
    for (const Region& region : regions) {
      const auto add = [&](int64_t count, int64_t padded_at, int64_t inner_at, int64_t step) {
        if (count == 0) return;
        Region part = region;
        part.dims.push_back(count);
        part.inner_strides.push_back(step * own[axis]);
        part.padded_offset += padded_at * outer[axis];
        part.inner_offset += inner_at * own[axis];
        next.push_back(std::move(part));
      };
      add(before, 0, before - 1 + skip, -1);
      add(size, before, 0, 1);
      add(after, before + size, size - 1 - skip, -1);
    }
    regions = std::move(next);
    if (regions.size() > kMaxRegions)
      return Unimplemented("{} '{}' mirrors along more than eight axes", node.node.type(), node.node.name());
  }
  return regions;
}

StatusOr<Prepared> PrepareMirrorPad(const NodeView& node, const KernelPolicy&) {
  const Shape& padded = node.outputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(auto regions, MirrorRegions(node, node.inputs[0].shape, padded));
  std::vector<StridedCopy> copies;
  for (Region& r : regions)
    RIVULET_RETURN_IF_ERROR(AddCopy(copies, 0, 0, r.dims, RowMajorStrides(padded), std::move(r.inner_strides),
                                    r.padded_offset, r.inner_offset));
  return PrepareCopies(node, std::move(copies));
}

template <typename T>
class MirrorPadGradKernel final : public Kernel {
 public:
  MirrorPadGradKernel(std::vector<StridedWalk<2>> regions, int64_t elements)
      : regions_(std::move(regions)), elements_(elements) {}
  Status Run(const KernelContext& context) const override {
    const T* dy = InputOf<T>(context, 0);
    T* out = OutputOf<T>(context, 0);
    std::fill_n(out, elements_, T{0});
    for (const StridedWalk<2>& region : regions_)
      region.ForEachRow([&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
        for (int64_t i = 0; i < count; ++i) out[at[0] + i * stride[0]] += dy[at[1] + i * stride[1]];
      });
    return absl::OkStatus();
  }

 private:
  std::vector<StridedWalk<2>> regions_;
  int64_t elements_;
};

template <typename T>
StatusOr<Prepared> PrepareMirrorPadGrad(const NodeView& node, const KernelPolicy&) {
  const Shape &inner = node.outputs[0].shape, &padded = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(auto regions, MirrorRegions(node, inner, padded));
  std::vector<StridedWalk<2>> walks;
  for (Region& r : regions) {
    RIVULET_ASSIGN_OR_RETURN(auto walk, MakeWalk<2>(r.dims, {std::move(r.inner_strides), RowMajorStrides(padded)},
                                                    {r.inner_offset, r.padded_offset}));
    walks.push_back(walk);
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<MirrorPadGradKernel<T>>(std::move(walks), inner.elements());
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(padded.elements());
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("Pad", PreparePad);
RIVULET_KERNEL_OF_EVERY_SIZE("PadV2", PreparePadV2);
RIVULET_KERNEL_OF_EVERY_SIZE("MirrorPad", PrepareMirrorPad);
RIVULET_KERNEL("MirrorPadGrad", Device::kCpu, float, PrepareMirrorPadGrad<float>);
RIVULET_KERNEL("MirrorPadGrad", Device::kCpu, double, PrepareMirrorPadGrad<double>);
RIVULET_KERNEL("MirrorPadGrad", Device::kCpu, int32_t, PrepareMirrorPadGrad<uint32_t>);  // wraps around
RIVULET_KERNEL("MirrorPadGrad", Device::kCpu, int64_t, PrepareMirrorPadGrad<uint64_t>);

}  // namespace
}  // namespace rivulet
