// One thread sums an element of the result over the window; the filter's gradient, a long sum, uses chunks.
#include "engine/kernels/cuda/chunked_sums_device.h"
#include "engine/kernels/cuda/depthwise.h"

namespace rivulet::gpu {
namespace {

// Pixel and channel of an image, from an element's index.
struct Place {
  int64_t image;
  int32_t y, x, channel;
};
__device__ Place PlaceOf(uint32_t element, const Divider& height, const Divider& width, const Divider& channels) {
  const int channel = static_cast<int>(channels.Split(element));
  const int x = static_cast<int>(width.Split(element)), y = static_cast<int>(height.Split(element));
  return {element, y, x, channel};
}

template <typename T>
__device__ T PixelOr0(const DepthwiseArguments& a, const T* image, int64_t number, int y, int x, int channel) {
  const int height = static_cast<int>(a.in_height.divisor), width = static_cast<int>(a.in_width.divisor);
  if (y < 0 || y >= height || x < 0 || x >= width) return T(0);
  return image[((number * height + y) * width + x) * a.in_channels.divisor + channel];
}

template <typename T>
__device__ void Forward(const DepthwiseArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *image = static_cast<const T*>(a.a.of(lane)), *filter = static_cast<const T*>(a.b.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place to = PlaceOf(static_cast<uint32_t>(i), a.out_height, a.out_width, a.out_channels);
    const int channel = static_cast<int>(a.multiplier.Quotient(static_cast<uint32_t>(to.channel)));
    const int top = to.y * static_cast<int>(a.stride_height.divisor) - a.pad_top;
    const int left = to.x * static_cast<int>(a.stride_width.divisor) - a.pad_left;
    T sum = T(0);
    for (int ky = 0; ky < a.height; ++ky)
      for (int kx = 0; kx < a.width; ++kx)
        sum += PixelOr0(a, image, to.image, top + ky * a.step_height, left + kx * a.step_width, channel) *
               filter[(int64_t{ky} * a.width + kx) * a.out_channels.divisor + to.channel];
    static_cast<T*>(a.y.of(lane))[i] = sum;
  }
}

template <typename T>
__device__ void InputGradient(const DepthwiseArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *gradient = static_cast<const T*>(a.a.of(lane)), *filter = static_cast<const T*>(a.b.of(lane));
  const int multiplier = static_cast<int>(a.multiplier.divisor);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place to = PlaceOf(static_cast<uint32_t>(i), a.in_height, a.in_width, a.in_channels);
    T sum = T(0);
    for (int ky = 0; ky < a.height; ++ky) {
      const int y = to.y + a.pad_top - ky * a.step_height;
      uint32_t row = static_cast<uint32_t>(y);
      if (y < 0 || a.stride_height.Split(row) != 0 || row >= a.out_height.divisor) continue;
      for (int kx = 0; kx < a.width; ++kx) {
        const int x = to.x + a.pad_left - kx * a.step_width;
        uint32_t column = static_cast<uint32_t>(x);
        if (x < 0 || a.stride_width.Split(column) != 0 || column >= a.out_width.divisor) continue;
        const int64_t pixel = (to.image * a.out_height.divisor + row) * a.out_width.divisor + column;
        for (int m = 0; m < multiplier; ++m) {
          const int channel = to.channel * multiplier + m;
          sum += gradient[pixel * a.out_channels.divisor + channel] *
                 filter[(int64_t{ky} * a.width + kx) * a.out_channels.divisor + channel];
        }
      }
    }
    static_cast<T*>(a.y.of(lane))[i] = sum;
  }
}

template <typename T>
__device__ void FilterGradient(const DepthwiseArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *image = static_cast<const T*>(a.a.of(lane)), *gradient = static_cast<const T*>(a.b.of(lane));
  SumChunks<1>(a.sums, lane, [&](int result, int i, double(&sums)[1]) {
    uint32_t tap = static_cast<uint32_t>(result);
    const uint32_t out_channel = a.out_channels.Split(tap);
    const int ky = static_cast<int>(tap) / a.width, kx = static_cast<int>(tap) % a.width;
    uint32_t number = static_cast<uint32_t>(i);
    const int x = static_cast<int>(a.out_width.Split(number)), y = static_cast<int>(a.out_height.Split(number));
    const T pixel = PixelOr0(a, image, int64_t{number},
                             y * static_cast<int>(a.stride_height.divisor) - a.pad_top + ky * a.step_height,
                             x * static_cast<int>(a.stride_width.divisor) - a.pad_left + kx * a.step_width,
                             static_cast<int>(a.multiplier.Quotient(out_channel)));
    sums[0] +=
        static_cast<double>(pixel) * static_cast<double>(gradient[int64_t{i} * a.out_channels.divisor + out_channel]);
  });
}

#define RIVULET_GPU_DEPTHWISE_KERNELS(T)                                                                         \
  __global__ void Depthwise_##T(DepthwiseArguments a) { Forward<T>(a); }                                         \
  RIVULET_GPU_KERNEL("depthwise_" #T, DepthwiseArguments, Depthwise_##T, GridOver(a.count, a.lanes));            \
  __global__ void DepthwiseInput_##T(DepthwiseArguments a) { InputGradient<T>(a); }                              \
  RIVULET_GPU_KERNEL("depthwise_input_" #T, DepthwiseArguments, DepthwiseInput_##T, GridOver(a.count, a.lanes)); \
  __global__ void DepthwiseFilter_##T(DepthwiseArguments a) { FilterGradient<T>(a); }                            \
  RIVULET_GPU_KERNEL("depthwise_filter_" #T, DepthwiseArguments, DepthwiseFilter_##T,                            \
                     (Grid{a.sums.blocks(), 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads}));
RIVULET_GPU_DEPTHWISE_KERNELS(float)
RIVULET_GPU_DEPTHWISE_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
