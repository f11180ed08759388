// Several output channels per input channel.
#include <algorithm>
#include <array>

#include "engine/kernels/cpu/convolution/depthwise.h"
#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

// The image as [outer, inner]; with its channels repeated as [outer, multiplier, inner].
struct Repetition {
  int64_t outer = 0, inner = 1, multiplier = 1;
};

template <typename T>
class MultiplierKernel final : public Kernel {
 public:
  MultiplierKernel(std::unique_ptr<const Kernel> one, ConvDirection direction, const Repetition& repetition,
                   size_t image_at)
      : one_(std::move(one)), direction_(direction), r_(repetition), image_at_(image_at) {}

  Status Run(const KernelContext& context) const override {
    std::array<std::byte*, 2> inputs = {context.inputs[0], context.inputs[1]};
    std::array<std::byte*, 1> outputs = {context.outputs[0]};
    std::byte* repeated = context.scratch + image_at_;
    if (direction_ == ConvDirection::kBackwardInput) {
      outputs[0] = repeated;
    } else {
      Repeat(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<T*>(repeated));
      inputs[0] = repeated;
    }
    KernelContext inner = context;
    inner.inputs = inputs;
    inner.outputs = outputs;
    RIVULET_RETURN_IF_ERROR(one_->Run(inner));
    if (direction_ == ConvDirection::kBackwardInput)
      Sum(reinterpret_cast<const T*>(repeated), reinterpret_cast<T*>(context.outputs[0]));
    return {};
  }
  std::unique_ptr<KernelState> NewState() const override { return one_->NewState(); }

 private:
  void Repeat(const T* from, T* to) const {
    for (int64_t o = 0; o < r_.outer; ++o, from += r_.inner) {
      for (int64_t m = 0; m < r_.multiplier; ++m, to += r_.inner) std::copy_n(from, r_.inner, to);
    }
  }
  void Sum(const T* from, T* to) const {
    for (int64_t o = 0; o < r_.outer; ++o, to += r_.inner) {
      for (int64_t m = 0; m < r_.multiplier; ++m, from += r_.inner) {
        for (int64_t i = 0; i < r_.inner; ++i) to[i] = m == 0 ? from[i] : to[i] + from[i];
      }
    }
  }

  std::unique_ptr<const Kernel> one_;
  ConvDirection direction_;
  Repetition r_;
  size_t image_at_;  // in the scratch
};

}  // namespace

template <typename T>
Prepared WithChannelMultiplier(Prepared one, ConvDirection direction, const Window& w) {
  const int64_t pixels = w.in_height * w.in_width;
  const Repetition repetition = {w.nchw ? w.batch * w.in_channels : w.in_elements(), w.nchw ? pixels : 1,
                                 w.group_out()};
  const size_t image_at = RoundUp64(one.scratch_bytes);
  one.scratch_bytes = image_at + static_cast<size_t>(w.in_elements() * repetition.multiplier) * sizeof(T);
  one.kernel = std::make_unique<MultiplierKernel<T>>(std::move(one.kernel), direction, repetition, image_at);
  one.implementation += ", channels repeated";
  return one;
}

template Prepared WithChannelMultiplier<float>(Prepared, ConvDirection, const Window&);

}  // namespace rivulet
