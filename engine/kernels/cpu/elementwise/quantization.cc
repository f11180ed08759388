// Numbers rounded to few levels and back, with TensorFlow's float arithmetic.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

// FakeLevels with a level at exactly 0: [low, high] shifted by less than a level.
struct FakeLevels {
  float low = 0, high = 0, scale = 1;
  FakeLevels(float min, float max, int bits, bool narrow) {
    const float first = narrow ? 1.0f : 0.0f, last = static_cast<float>((1 << bits) - 1);
    scale = (max - min) / (last - first);
    const float zero = first - min / scale;
    const float nudged = zero < first ? first : zero > last ? last : std::round(zero);
    low = (first - nudged) * scale;
    high = (last - nudged) * scale;
  }
  float Of(float x) const {
    const float shifted = std::clamp(x, low, high) - low;
    return std::floor(shifted * (1.0f / scale) + 0.5f) * scale + low;
  }
};

// Reads the bounds of channel `c` from attributes or from two inputs.
class FakeBounds {
 public:
  // `first`: index of the input with the minimum, if bounds are tensors.
  FakeBounds(const NodeView& node, size_t first) : first_(first) {
    bits_ = static_cast<int>(node.attr<int64_t>("num_bits"));
    narrow_ = node.attr<bool>("narrow_range");
    tensors_ = node.node.FindAttr<float>("min") == nullptr;
    if (!tensors_) {
      min_ = node.attr<float>("min");
      max_ = node.attr<float>("max");
    }
    channels_ = tensors_ ? std::max<int64_t>(node.inputs[first].shape.elements(), 1) : 1;
  }
  int64_t channels() const { return channels_; }
  bool tensors() const { return tensors_; }
  StatusOr<FakeLevels> Of(const KernelContext& c, int64_t channel) const {
    const float min = tensors_ ? InputOf<float>(c, first_)[channel] : min_;
    const float max = tensors_ ? InputOf<float>(c, first_ + 1)[channel] : max_;
    if (min == 0 && max == 0) return FakeLevels(0, 1, bits_, narrow_);  // handled by the caller: all results are 0
    if (!(min < max)) return InvalidArgument("min {} must be below max {}", min, max);
    return FakeLevels(min, max, bits_, narrow_);
  }
  bool IsEmpty(const KernelContext& c, int64_t channel) const {
    return tensors_ && InputOf<float>(c, first_)[channel] == 0 && InputOf<float>(c, first_ + 1)[channel] == 0;
  }

 private:
  size_t first_;
  int bits_ = 8;
  bool narrow_ = false, tensors_ = false;
  float min_ = 0, max_ = 0;
  int64_t channels_ = 1;
};

StatusOr<Prepared> PrepareFakeQuant(const NodeView& node, const KernelPolicy&) {
  const FakeBounds bounds(node, 1);
  const int64_t count = node.inputs[0].shape.elements();
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const int64_t channels = bounds.channels();
    for (int64_t channel = 0; channel < channels; ++channel) {
      RIVULET_ASSIGN_OR_RETURN(const FakeLevels levels, bounds.Of(c, channel));
      const bool empty = bounds.IsEmpty(c, channel);
      for (int64_t i = channel; i < count; i += channels)
        OutputOf<float>(c, 0)[i] = empty ? 0 : levels.Of(InputOf<float>(c, 0)[i]);
    }
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PrepareFakeQuantGradient(const NodeView& node, const KernelPolicy&) {
  const FakeBounds bounds(node, 2);
  const int64_t count = node.inputs[0].shape.elements();
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const int64_t channels = bounds.channels();
    const float *arrived = InputOf<float>(c, 0), *inputs = InputOf<float>(c, 1);
    for (int64_t channel = 0; channel < channels; ++channel) {
      RIVULET_ASSIGN_OR_RETURN(const FakeLevels levels, bounds.Of(c, channel));
      const bool empty = bounds.IsEmpty(c, channel);
      double below = 0, above = 0;
      for (int64_t i = channel; i < count; i += channels) {
        const bool inside = empty || (inputs[i] >= levels.low && inputs[i] <= levels.high);
        OutputOf<float>(c, 0)[i] = inside ? arrived[i] : 0;
        if (inside) continue;
        (inputs[i] < levels.low ? below : above) += static_cast<double>(arrived[i]);
      }
      if (!bounds.tensors()) continue;
      OutputOf<float>(c, 1)[channel] = static_cast<float>(below);
      OutputOf<float>(c, 2)[channel] = static_cast<float>(above);
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareQuantizeDequantize(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements(), bits = node.attr<int64_t>("num_bits");
  const bool has_sign = node.attr<bool>("signed_input"), given = node.attr<bool>("range_given"),
             narrow = node.attr<bool>("narrow_range"), up = node.attr<std::string>("round_mode") == "HALF_UP";
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const T* in = InputOf<T>(c, 0);
    T min = 0, max = 0;
    if (given) {
      min = *InputOf<T>(c, 1);
      max = *InputOf<T>(c, 2);
      if (min > max) return InvalidArgument("input_min {} is above input_max {}", min, max);
    } else if (count > 0) {
      min = *std::min_element(in, in + count);
      max = *std::max_element(in, in + count);
    }
    const T least = has_sign ? (narrow ? -static_cast<T>((int64_t{1} << (bits - 1)) - 1)
                                       : -static_cast<T>(int64_t{1} << (bits - 1)))
                             : T{0};
    const T most = static_cast<T>(has_sign ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1);
    // The bound that needs the larger scale decides, and the other follows from it.
    const T of_min = least * min > 0 ? least / min : std::numeric_limits<T>::max();
    const T of_max = most * max > 0 ? most / max : std::numeric_limits<T>::max();
    T scale = 1, inverse = 1;
    if (of_min < of_max) {
      scale = of_min;
      inverse = min / least;
      max = most * inverse;
    } else {
      scale = of_max;
      inverse = max / most;
      min = least * inverse;
    }
    for (int64_t i = 0; i < count; ++i) {
      const T value = std::clamp(in[i], std::min(min, max), max) * scale;
      OutputOf<T>(c, 0)[i] = (up ? std::floor(value + T{0.5}) : std::nearbyint(value)) * inverse;
    }
    return absl::OkStatus();
  });
}

RIVULET_KERNEL("FakeQuantWithMinMaxArgs", Device::kCpu, void, PrepareFakeQuant);
RIVULET_KERNEL("FakeQuantWithMinMaxVars", Device::kCpu, void, PrepareFakeQuant);
RIVULET_KERNEL("FakeQuantWithMinMaxVarsPerChannel", Device::kCpu, void, PrepareFakeQuant);
RIVULET_KERNEL("FakeQuantWithMinMaxArgsGradient", Device::kCpu, void, PrepareFakeQuantGradient);
RIVULET_KERNEL("FakeQuantWithMinMaxVarsGradient", Device::kCpu, void, PrepareFakeQuantGradient);
RIVULET_KERNEL("FakeQuantWithMinMaxVarsPerChannelGradient", Device::kCpu, void, PrepareFakeQuantGradient);
RIVULET_KERNEL("QuantizeAndDequantizeV2", Device::kCpu, float, PrepareQuantizeDequantize<float>);
RIVULET_KERNEL("QuantizeAndDequantizeV2", Device::kCpu, double, PrepareQuantizeDequantize<double>);
RIVULET_KERNEL("QuantizeAndDequantizeV4", Device::kCpu, float, PrepareQuantizeDequantize<float>);
RIVULET_KERNEL("QuantizeAndDequantizeV4", Device::kCpu, double, PrepareQuantizeDequantize<double>);

}  // namespace
}  // namespace rivulet
