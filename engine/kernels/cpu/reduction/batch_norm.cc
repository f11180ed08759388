// FusedBatchNormV3 and its gradient, alone and followed by Relu or Relu6.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/kernels/cpu/reduction/channel_layout.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
struct Attributes {
  ChannelLayout layout;
  T epsilon, average_factor;
  bool training;
  std::optional<Rectifier<T>> rectifier = std::nullopt;  // after it
  const Rectifier<T>* rectified() const { return rectifier ? &*rectifier : nullptr; }
};

// A kernel's scratch per channel: two doubles and `kArrays` arrays of T, after two more for the sums.
template <typename T, size_t kArrays>
struct BatchScratch {
  static size_t Bytes(int64_t channels) {
    return static_cast<size_t>(channels) * (2 * sizeof(double) + (2 + kArrays) * sizeof(T));
  }
  BatchScratch(std::byte* memory, int64_t channels) {
    doubles[0] = As<double>(memory);
    doubles[1] = doubles[0] + channels;
    sums = reinterpret_cast<T*>(doubles[1] + channels);
    for (size_t i = 0; i < kArrays; ++i) arrays[i] = sums + (2 + static_cast<int64_t>(i)) * channels;
  }
  double* doubles[2];
  T* sums;
  T* arrays[kArrays];
};

template <typename T>
T FactorOf(T scale, T variance, const Attributes<T>& attributes) {
  return scale / std::sqrt(variance + attributes.epsilon);
}

template <typename T>
class BatchNormKernel final : public Kernel {
 public:
  explicit BatchNormKernel(const Attributes<T>& attributes) : a_(attributes) {}
  Status Run(const KernelContext& context) const override {
    const int64_t channels = a_.layout.channels;
    const T *x = InputOf<T>(context, 0), *scale = InputOf<T>(context, 1), *offset = InputOf<T>(context, 2);
    const T *mean_in = InputOf<T>(context, 3), *variance_in = InputOf<T>(context, 4);
    T *mean = OutputOf<T>(context, 3), *variance = OutputOf<T>(context, 4);
    T *average_mean = OutputOf<T>(context, 1), *average_variance = OutputOf<T>(context, 2);
    const BatchScratch<T, 1> scratch(context.scratch, channels);
    if (a_.training) {
      double *exact_mean = scratch.doubles[0], *squares = scratch.doubles[1];
      ChannelMoments(x, a_.layout, exact_mean, squares, scratch.sums);
      const double count = static_cast<double>(a_.layout.rows * a_.layout.inner);
      for (int64_t c = 0; c < channels; ++c) {
        mean[c] = static_cast<T>(exact_mean[c]);
        variance[c] = static_cast<T>(squares[c] / std::max(count, 1.0));
        // The average uses the unbiased estimate, as in TensorFlow.
        Average(mean[c], mean_in, c, average_mean);
        Average(static_cast<T>(squares[c] / std::max(count - 1, 1.0)), variance_in, c, average_variance);
      }
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        average_mean[c] = mean[c] = mean_in[c];
        average_variance[c] = variance[c] = variance_in[c];
      }
    }
    T* factor = scratch.arrays[0];
    for (int64_t c = 0; c < channels; ++c) factor[c] = FactorOf(scale[c], variance[c], a_);
    ChannelNormalize(x, mean, factor, offset, a_.rectified(), a_.layout, OutputOf<T>(context, 0));
    return absl::OkStatus();
  }

 private:
  void Average(T value, const T* before, int64_t c, T* after) const {
    // With factor 1 no previous value is needed: the vector may be empty.
    after[c] = a_.average_factor == T{1} ? value : before[c] * (T{1} - a_.average_factor) + value * a_.average_factor;
  }

  Attributes<T> a_;
};

template <typename T>
class BatchNormGradKernel final : public Kernel {
 public:
  explicit BatchNormGradKernel(const Attributes<T>& attributes) : a_(attributes) {}
  Status Run(const KernelContext& context) const override {
    const int64_t channels = a_.layout.channels;
    const T *dy = InputOf<T>(context, 0), *x = InputOf<T>(context, 1), *scale = InputOf<T>(context, 2);
    const T *mean = InputOf<T>(context, 3), *variance = InputOf<T>(context, 4);
    T *scale_grad = OutputOf<T>(context, 1), *offset_grad = OutputOf<T>(context, 2);
    const BatchScratch<T, 5> scratch(context.scratch, channels);
    double *sum_dy = scratch.doubles[0], *sum_dy_x = scratch.doubles[1];
    const auto [factors, q, r, ones, forward] = scratch.arrays;
    Rectified<T> rectified;
    if (a_.rectifier) {
      for (int64_t c = 0; c < channels; ++c) forward[c] = FactorOf(scale[c], variance[c], a_);
      rectified = {forward, InputOf<T>(context, 6), a_.rectified()};
    }
    ChannelGradientSums(dy, x, mean, rectified, a_.layout, sum_dy, sum_dy_x, scratch.sums);
    const double count = std::max(static_cast<double>(a_.layout.rows * a_.layout.inner), 1.0);
    for (int64_t c = 0; c < channels; ++c) {
      const double inverse = 1.0 / std::sqrt(static_cast<double>(variance[c]) + static_cast<double>(a_.epsilon));
      const double factor = static_cast<double>(scale[c]) * inverse;
      scale_grad[c] = static_cast<T>(sum_dy_x[c] * inverse);
      offset_grad[c] = static_cast<T>(sum_dy[c]);
      factors[c] = static_cast<T>(factor);
      // Given statistics do not depend on x.
      q[c] = a_.training ? static_cast<T>(sum_dy[c] / count) : T{0};
      r[c] = a_.training ? static_cast<T>(inverse * inverse * (sum_dy_x[c] / count)) : T{0};
      ones[c] = T{1};
    }
    if (a_.training) {
      ChannelNormalizeGradient<T>(dy, x, {mean, ones, q, r, factors}, rectified, a_.layout, OutputOf<T>(context, 0));
    } else {
      // dy · factor alone: an infinite x must not affect it.
      ChannelNormalize<T>(dy, q, factors, q, nullptr, a_.layout, OutputOf<T>(context, 0));
    }
    *OutputOf<T>(context, 3) = *OutputOf<T>(context, 4) = T{0};
    return absl::OkStatus();
  }

 private:
  Attributes<T> a_;
};

template <typename T>
StatusOr<Attributes<T>> AttributesOf(const NodeView& node, int x) {
  for (const TensorSpec& input : node.inputs)
    if (input.dtype != kDTypeOf<T>)
      return Unimplemented("statistics of {} for an input of {}", Name(input.dtype), Name(kDTypeOf<T>));
  Attributes<T> attributes;
  attributes.layout = ChannelLayoutOf(node, node.inputs[static_cast<size_t>(x)].shape);
  attributes.epsilon = static_cast<T>(node.attr<float>("epsilon"));
  attributes.training = node.attr<bool>("is_training");
  attributes.average_factor =
      node.node.HasAttr("exponential_avg_factor") ? static_cast<T>(node.attr<float>("exponential_avg_factor")) : T{1};
  if (node.node.HasAttr("activation_mode")) {
    const std::string& mode = node.attr<std::string>("activation_mode");
    if (mode == "Relu") {
      attributes.rectifier = {std::numeric_limits<T>::quiet_NaN()};
    } else if (mode == "Relu6") {
      attributes.rectifier = {T{6}};
    } else if (mode != "Identity") {
      return InvalidArgument("activation_mode '{}' is not one of Identity, Relu and Relu6", mode);
    }
  }
  return attributes;
}

template <typename T>
StatusOr<Prepared> PrepareBatchNorm(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Attributes<T> attributes, AttributesOf<T>(node, 0));
  const Shape channels({attributes.layout.channels});
  for (size_t i = 1; i < 5; ++i) {
    const bool unused = i > 2 && attributes.training && attributes.average_factor == T{1};
    if (node.inputs[i].shape != channels && !(unused && node.inputs[i].shape == Shape({0})))
      return InvalidArgument("input {} is {}; one value for each of {} channels is needed", i,
                             node.inputs[i].shape.ToString(), attributes.layout.channels);
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<BatchNormKernel<T>>(attributes);
  prepared.scratch_bytes = BatchScratch<T, 1>::Bytes(attributes.layout.channels);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  prepared.flops = 8.0 * static_cast<double>(attributes.layout.elements());
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareBatchNormGrad(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Attributes<T> attributes, AttributesOf<T>(node, 1));
  const Shape channels({attributes.layout.channels});
  if (node.inputs[0].shape != node.inputs[1].shape)
    return InvalidArgument("y_backprop {} and x {} differ in shape", node.inputs[0].shape.ToString(),
                           node.inputs[1].shape.ToString());
  if (attributes.rectifier && !attributes.training)
    return Unimplemented("the gradient of an activation and of a normalisation by given statistics in one");
  for (const size_t i : {2, 3, 4, 6})
    if (i < node.inputs.size() && node.inputs[i].shape != channels)
      return InvalidArgument("input {} is {}; one value for each of {} channels is needed", i,
                             node.inputs[i].shape.ToString(), attributes.layout.channels);
  Prepared prepared;
  prepared.kernel = std::make_unique<BatchNormGradKernel<T>>(attributes);
  prepared.scratch_bytes = BatchScratch<T, 5>::Bytes(attributes.layout.channels);
  prepared.in_place = {{0, 0}, {1, 0}};
  prepared.implementation = "hwy";
  prepared.flops = 9.0 * static_cast<double>(attributes.layout.elements());
  return prepared;
}

RIVULET_KERNEL("FusedBatchNormV3", Device::kCpu, float, PrepareBatchNorm<float>);
RIVULET_KERNEL("FusedBatchNormV3", Device::kCpu, double, PrepareBatchNorm<double>);
RIVULET_KERNEL("FusedBatchNormGradV3", Device::kCpu, float, PrepareBatchNormGrad<float>);
RIVULET_KERNEL("FusedBatchNormGradV3", Device::kCpu, double, PrepareBatchNormGrad<double>);
RIVULET_KERNEL("_FusedBatchNormEx", Device::kCpu, float, PrepareBatchNorm<float>);
RIVULET_KERNEL("_FusedBatchNormEx", Device::kCpu, double, PrepareBatchNorm<double>);
RIVULET_KERNEL("_FusedBatchNormGradEx", Device::kCpu, float, PrepareBatchNormGrad<float>);
RIVULET_KERNEL("_FusedBatchNormGradEx", Device::kCpu, double, PrepareBatchNormGrad<double>);

}  // namespace
}  // namespace rivulet
