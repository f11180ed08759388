// Sums are in double, where the square of a float is exact: Σ x² - (Σ x)² / n loses no digits of a float while the mean
// is below 10⁴ deviations.
#include "engine/kernels/cuda/channel_norm.h"
#include "engine/kernels/cuda/chunked_sums_device.h"
#include "engine/kernels/cuda/elementwise_functions.h"

namespace rivulet::gpu {
namespace {

using functions::RootOf;

template <typename T>
__device__ const T* Read(const LaneSpan<const void>& span, int lane) {
  return static_cast<const T*>(span.of(lane));
}
template <typename T>
__device__ T* Write(const LaneSpan<void>& span, int lane) {
  return static_cast<T*>(span.of(lane));
}

// Index of the (example, group) of an example's channel.
__device__ uint32_t GroupOf(const ChannelShape& shape, uint32_t example, uint32_t channel) {
  return example * shape.group_size.Quotient(shape.channels.divisor) + shape.group_size.Quotient(channel);
}

template <typename T>
__device__ void Sums(const ChannelSumsArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* x = Read<T>(a.x, lane);
  const bool gradient = a.dy.data != nullptr;
  const T *dy = gradient ? Read<T>(a.dy, lane) : nullptr, *mean = gradient ? Read<T>(a.mean, lane) : nullptr;
  SumChunks<2>(a.sums, lane, [&](int result, int i, double(&sums)[2]) {
    uint32_t example = static_cast<uint32_t>(result), row = static_cast<uint32_t>(i);
    const uint32_t channel = a.shape.channels.Split(example), inner = a.shape.inner.Split(row);
    const int64_t at =
        ((int64_t{example} * a.shape.rows.divisor + row) * a.shape.channels.divisor + channel) * a.shape.inner.divisor +
        inner;
    const double value = static_cast<double>(x[at]);
    if (gradient) {
      const double g = static_cast<double>(dy[at]);
      sums[0] += g;
      sums[1] += g * (value - static_cast<double>(mean[GroupOf(a.shape, example, channel)]));
    } else {
      sums[0] += value;
      sums[1] += value * value;
    }
  });
}

// The sum of squared distances from the mean.
__device__ double Distances(double sum, double squares, double count) {
  const double distances = squares - sum * (sum / count);
  return distances < 0 ? 0 : distances;
}

template <typename T>
__device__ void BatchNormStatistics(const BatchNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* sums = a.sums.of(lane);
  const T factor = static_cast<T>(a.average_factor);
  for (int64_t c = FirstElement(); c < a.channels; c += ElementStride()) {
    T mean, variance;
    if (a.training != 0) {
      const double squares = a.count > 0 ? Distances(sums[c], sums[a.channels + c], a.count) : 0;
      mean = static_cast<T>(sums[c] / (a.count > 1 ? a.count : 1));
      variance = static_cast<T>(squares / (a.count > 1 ? a.count : 1));
      // The average uses the unbiased estimate, as in TensorFlow. With factor 1 no previous value is needed.
      const T unbiased = static_cast<T>(squares / (a.count > 2 ? a.count - 1 : 1));
      const bool whole = factor == T(1);
      Write<T>(a.average_mean, lane)[c] = whole ? mean : Read<T>(a.mean_in, lane)[c] * (T(1) - factor) + mean * factor;
      Write<T>(a.average_variance, lane)[c] =
          whole ? unbiased : Read<T>(a.variance_in, lane)[c] * (T(1) - factor) + unbiased * factor;
    } else {
      Write<T>(a.average_mean, lane)[c] = mean = Read<T>(a.mean_in, lane)[c];
      Write<T>(a.average_variance, lane)[c] = variance = Read<T>(a.variance_in, lane)[c];
    }
    Write<T>(a.mean, lane)[c] = mean;
    Write<T>(a.variance, lane)[c] = variance;
    Write<T>(a.factor, lane)[c] = Read<T>(a.scale, lane)[c] / RootOf(variance + static_cast<T>(a.epsilon));
  }
}

template <typename T>
__device__ void BatchNormGradients(const BatchNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* sums = a.sums.of(lane);
  const double count = a.count > 1 ? a.count : 1;
  for (int64_t c = FirstElement(); c < a.channels; c += ElementStride()) {
    const double inverse = 1.0 / sqrt(static_cast<double>(Read<T>(a.variance_in, lane)[c]) +
                                      static_cast<double>(static_cast<T>(a.epsilon)));
    const double of_dy = sums[c], of_dy_x = sums[a.channels + c];
    Write<T>(a.scale_grad, lane)[c] = static_cast<T>(of_dy_x * inverse);
    Write<T>(a.offset_grad, lane)[c] = static_cast<T>(of_dy);
    Write<T>(a.factor, lane)[c] = static_cast<T>(static_cast<double>(Read<T>(a.scale, lane)[c]) * inverse);
    Write<T>(a.q, lane)[c] = static_cast<T>(of_dy / count);
    Write<T>(a.r, lane)[c] = static_cast<T>(inverse * inverse * (of_dy_x / count));
  }
  if (FirstElement() == 0) *Write<T>(a.reserve3, lane) = *Write<T>(a.reserve4, lane) = T(0);
}

template <typename T>
__device__ void GroupNormStatistics(const GroupNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* sums = a.sums.of(lane);
  const int64_t squares = int64_t{a.examples} * a.channels;
  for (int64_t i = FirstElement(); i < int64_t{a.examples} * a.groups; i += ElementStride()) {
    double sum = 0, square = 0;
    for (int64_t c = i * a.group_size; c < (i + 1) * a.group_size; ++c) {
      sum += sums[c];
      square += sums[squares + c];
    }
    Write<T>(a.mean, lane)[i] = static_cast<T>(sum / a.count);
    Write<T>(a.inverse, lane)[i] = static_cast<T>(1.0 / sqrt(Distances(sum, square, a.count) / a.count + a.epsilon));
  }
}

template <typename T>
__device__ void GroupNormGradients(const GroupNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* sums = a.sums.of(lane);
  const int64_t second = int64_t{a.examples} * a.channels;
  const T* scale = Read<T>(a.scale, lane);
  for (int64_t i = FirstElement(); i < int64_t{a.examples} * a.groups; i += ElementStride()) {
    double of_dy = 0, of_dy_x = 0;
    for (int64_t c = i * a.group_size; c < (i + 1) * a.group_size; ++c) {
      const double by = static_cast<double>(scale[c % a.channels]);
      of_dy += sums[c] * by;
      of_dy_x += sums[second + c] * by;
    }
    const double factor = static_cast<double>(Read<T>(a.inverse_in, lane)[i]);
    Write<T>(a.q, lane)[i] = static_cast<T>(of_dy / a.count);
    Write<T>(a.r, lane)[i] = static_cast<T>(factor * factor * (of_dy_x / a.count));
  }
}

template <typename T>
__device__ void GroupNormParameters(const GroupNormArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* sums = a.sums.of(lane);
  const int64_t second = int64_t{a.examples} * a.channels;
  for (int64_t c = FirstElement(); c < a.channels; c += ElementStride()) {
    double of_scale = 0, of_offset = 0;
    for (int example = 0; example < a.examples; ++example) {
      const int64_t at = int64_t{example} * a.channels + c;
      of_offset += sums[at];
      of_scale += sums[second + at] *
                  static_cast<double>(Read<T>(a.inverse_in, lane)[int64_t{example} * a.groups + c / a.group_size]);
    }
    Write<T>(a.scale_grad, lane)[c] = static_cast<T>(of_scale);
    Write<T>(a.offset_grad, lane)[c] = static_cast<T>(of_offset);
  }
}

// Position of an element: its channel and its (example, group).
struct ChannelPlace {
  uint32_t channel, group;
  __device__ ChannelPlace(const ChannelShape& shape, uint32_t element) {
    shape.inner.Split(element);
    channel = shape.channels.Split(element);
    shape.rows.Split(element);
    group = GroupOf(shape, element, channel);
  }
};

template <typename T>
__device__ void Normalize(const ChannelWalkArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *x = Read<T>(a.x, lane), *mean = Read<T>(a.mean, lane), *factor = Read<T>(a.factor, lane);
  const T *scale = Read<T>(a.scale, lane), *offset = Read<T>(a.offset, lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const ChannelPlace p(a.shape, static_cast<uint32_t>(i));
    const T by = a.times_scale != 0 ? factor[p.group] * scale[p.channel] : factor[p.group];
    Write<T>(a.y, lane)[i] = (x[i] - mean[p.group]) * by + offset[p.channel];
  }
}

template <typename T>
__device__ void Gradient(const ChannelWalkArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *x = Read<T>(a.x, lane), *dy = Read<T>(a.dy, lane), *mean = Read<T>(a.mean, lane);
  const T *factor = Read<T>(a.factor, lane), *scale = a.scale.data == nullptr ? nullptr : Read<T>(a.scale, lane);
  const T *q = Read<T>(a.q, lane), *r = Read<T>(a.r, lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const ChannelPlace p(a.shape, static_cast<uint32_t>(i));
    T change = scale == nullptr ? dy[i] : dy[i] * scale[p.channel];
    // Given statistics do not depend on x: an infinite x must not affect the gradient.
    if (a.q.data != nullptr) change = change - q[p.group] - (x[i] - mean[p.group]) * r[p.group];
    Write<T>(a.y, lane)[i] = change * factor[p.group];
  }
}

#define RIVULET_GPU_NORM_KERNEL(name, Function, Arguments, T, grid) \
  __global__ void Function##_##T(Arguments a) { Function<T>(a); }   \
  RIVULET_GPU_KERNEL(name "_" #T, Arguments, Function##_##T, grid);
#define RIVULET_GPU_NORM_KERNELS(T)                                                                            \
  RIVULET_GPU_NORM_KERNEL("channel_sums", Sums, ChannelSumsArguments, T,                                       \
                          (Grid{a.sums.blocks(), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads}))     \
  RIVULET_GPU_NORM_KERNEL("batch_norm_statistics", BatchNormStatistics, BatchNormArguments, T,                 \
                          GridOver(a.channels, a.lanes))                                                       \
  RIVULET_GPU_NORM_KERNEL("batch_norm_gradients", BatchNormGradients, BatchNormArguments, T,                   \
                          GridOver(a.channels, a.lanes))                                                       \
  RIVULET_GPU_NORM_KERNEL("group_norm_statistics", GroupNormStatistics, GroupNormArguments, T,                 \
                          GridOver(int64_t{a.examples} * a.groups, a.lanes))                                   \
  RIVULET_GPU_NORM_KERNEL("group_norm_gradients", GroupNormGradients, GroupNormArguments, T,                   \
                          GridOver(int64_t{a.examples} * a.groups, a.lanes))                                   \
  RIVULET_GPU_NORM_KERNEL("group_norm_parameters", GroupNormParameters, GroupNormArguments, T,                 \
                          GridOver(a.channels, a.lanes))                                                       \
  RIVULET_GPU_NORM_KERNEL("channel_normalize", Normalize, ChannelWalkArguments, T, GridOver(a.count, a.lanes)) \
  RIVULET_GPU_NORM_KERNEL("channel_gradient", Gradient, ChannelWalkArguments, T, GridOver(a.count, a.lanes))
RIVULET_GPU_NORM_KERNELS(float)
RIVULET_GPU_NORM_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
