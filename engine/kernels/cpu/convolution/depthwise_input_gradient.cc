// The gradient of a depthwise convolution's image for stride 1: a forward convolution of the gradient with the filter
// rotated by 180 degrees.
#include <algorithm>
#include <array>

#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/kernels/cpu/convolution/rotated_filter.h"
#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

class RotatedFilterKernel final : public Kernel {
 public:
  RotatedFilterKernel(std::unique_ptr<const Kernel> forward, int64_t taps, int64_t channels, size_t filter_at)
      : forward_(std::move(forward)), taps_(taps), channels_(channels), filter_at_(filter_at) {}

  Status Run(const KernelContext& context) const override {
    const float* filter = reinterpret_cast<const float*>(context.inputs[0]);
    float* rotated = reinterpret_cast<float*>(context.scratch + filter_at_);
    for (int64_t tap = 0; tap < taps_; ++tap)
      std::copy_n(filter + (taps_ - 1 - tap) * channels_, channels_, rotated + tap * channels_);
    const std::array<std::byte*, 2> inputs = {context.inputs[1], context.scratch + filter_at_};
    KernelContext inner = context;
    inner.inputs = inputs;
    return forward_->Run(inner);
  }
  std::unique_ptr<KernelState> NewState() const override { return forward_->NewState(); }

 private:
  std::unique_ptr<const Kernel> forward_;
  int64_t taps_, channels_;
  size_t filter_at_;  // in the scratch
};

}  // namespace

std::optional<Window> RotatedDepthwiseWindow(const Window& w) {
  if (w.stride_height != 1 || w.stride_width != 1) return std::nullopt;
  const Window rotated = RotatedWindow(w);
  if (rotated.pad_top < 0 || rotated.pad_left < 0 || rotated.pad_bottom < 0 || rotated.pad_right < 0)
    return std::nullopt;
  return rotated;
}

Prepared WithRotatedFilter(Prepared forward, const Window& w) {
  const size_t filter_at = RoundUp64(forward.scratch_bytes);
  forward.scratch_bytes = filter_at + static_cast<size_t>(w.filter_elements()) * sizeof(float);
  forward.kernel =
      std::make_unique<RotatedFilterKernel>(std::move(forward.kernel), w.height * w.width, w.in_channels, filter_at);
  forward.implementation += ", rotated filter";
  return forward;
}

}  // namespace rivulet
