// One thread per element of the result. Gradients are gathered by pixel, over the windows that contain it in order, so
// that threads never conflict: a pixel gets the gradient of each window whose first maximum it is.
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/pooling.h"

namespace rivulet::gpu {
namespace {

// The taps of a window inside the image, as pixels first, first + dilation, … before end.
struct Span {
  int first, end;
};
__device__ Span SpanOf(const PoolAxis& axis, int output) {
  const int start = output * static_cast<int>(axis.stride.divisor) - axis.pad_before;
  const int outside = start < 0 ? (-start + axis.dilation - 1) / axis.dilation : 0;
  return {start + outside * axis.dilation,
          min(start + axis.window * axis.dilation, static_cast<int>(axis.input.divisor))};
}
// Number of taps of a window that a mean counts.
__device__ int CountOf(const PoolAxis& axis, int output) {
  const int start = output * static_cast<int>(axis.stride.divisor) - axis.pad_before;
  int count = 0;
  for (int k = 0; k < axis.window; ++k) {
    const int at = start + k * axis.dilation;
    if (at >= axis.counted_begin && at < axis.counted_end) ++count;
  }
  return count;
}

struct Place {
  int64_t image;
  int y, x, channel;
};
__device__ Place PlaceOf(uint32_t element, const Divider& height, const Divider& width, const Divider& channels) {
  const int channel = static_cast<int>(channels.Split(element));
  const int x = static_cast<int>(width.Split(element)), y = static_cast<int>(height.Split(element));
  return {element, y, x, channel};
}

// Element offsets in the image and in the pooled image.
__device__ int64_t InImage(const PoolArguments& a, const Place& p, int y, int x) {
  return ((p.image * a.height.input.divisor + y) * a.width.input.divisor + x) * a.channels.divisor + p.channel;
}
__device__ int64_t InPooled(const PoolArguments& a, const Place& p, int y, int x) {
  return ((p.image * a.height.output.divisor + y) * a.width.output.divisor + x) * a.channels.divisor + p.channel;
}

template <typename T>
__device__ void MaxPool(const PoolArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* image = static_cast<const T*>(a.image.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place p = PlaceOf(static_cast<uint32_t>(i), a.height.output, a.width.output, a.channels);
    const Span rows = SpanOf(a.height, p.y), columns = SpanOf(a.width, p.x);
    T best = image[InImage(a, p, rows.first, columns.first)];
    for (int y = rows.first; y < rows.end; y += a.height.dilation)
      for (int x = columns.first; x < columns.end; x += a.width.dilation) {
        const T value = image[InImage(a, p, y, x)];
        if (value > best || value != value) best = value;
      }
    static_cast<T*>(a.y.of(lane))[i] = best;
  }
}

template <typename T>
__device__ void AvgPool(const PoolArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* image = static_cast<const T*>(a.image.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place p = PlaceOf(static_cast<uint32_t>(i), a.height.output, a.width.output, a.channels);
    const Span rows = SpanOf(a.height, p.y), columns = SpanOf(a.width, p.x);
    T sum = T(0);
    for (int y = rows.first; y < rows.end; y += a.height.dilation)
      for (int x = columns.first; x < columns.end; x += a.width.dilation) sum += image[InImage(a, p, y, x)];
    static_cast<T*>(a.y.of(lane))[i] = sum / static_cast<T>(CountOf(a.height, p.y) * CountOf(a.width, p.x));
  }
}

// If windows do not overlap, a pixel is in at most one.
__device__ bool IsApart(const PoolAxis& axis) {
  return axis.dilation == 1 && static_cast<int>(axis.stride.divisor) >= axis.window;
}
// The window that contains position `at`, or one after the last.
__device__ uint32_t OnlyWindow(const PoolAxis& axis, int at) {
  uint32_t window = static_cast<uint32_t>(at + axis.pad_before);
  return static_cast<int>(axis.stride.Split(window)) < axis.window ? window : axis.output.divisor;
}

// Calls f(row, column) for every window that contains the pixel, in order.
template <typename F>
__device__ void ForEachWindow(const PoolArguments& a, const Place& p, const F& f) {
  if (IsApart(a.height) && IsApart(a.width)) {
    const uint32_t row = OnlyWindow(a.height, p.y), column = OnlyWindow(a.width, p.x);
    if (row < a.height.output.divisor && column < a.width.output.divisor)
      f(static_cast<int>(row), static_cast<int>(column));
    return;
  }
  for (int ky = a.height.window - 1; ky >= 0; --ky) {
    const int y = p.y + a.height.pad_before - ky * a.height.dilation;
    uint32_t row = static_cast<uint32_t>(y);
    if (y < 0 || a.height.stride.Split(row) != 0 || row >= a.height.output.divisor) continue;
    for (int kx = a.width.window - 1; kx >= 0; --kx) {
      const int x = p.x + a.width.pad_before - kx * a.width.dilation;
      uint32_t column = static_cast<uint32_t>(x);
      if (x < 0 || a.width.stride.Split(column) != 0 || column >= a.width.output.divisor) continue;
      f(static_cast<int>(row), static_cast<int>(column));
    }
  }
}

// Whether no earlier pixel of the window is also its maximum.
template <typename T>
__device__ bool IsFirst(const PoolArguments& a, const T* image, const Place& p, int row, int column, T best) {
  const Span rows = SpanOf(a.height, row), columns = SpanOf(a.width, column);
  for (int y = rows.first; y <= p.y; y += a.height.dilation)
    for (int x = columns.first; x < (y == p.y ? p.x : columns.end); x += a.width.dilation)
      if (image[InImage(a, p, y, x)] == best) return false;
  return true;
}

template <typename T>
__device__ void MaxPoolGrad(const PoolArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *image = static_cast<const T*>(a.image.of(lane)), *pooled = static_cast<const T*>(a.pooled.of(lane));
  const T* gradient = static_cast<const T*>(a.gradient.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place p = PlaceOf(static_cast<uint32_t>(i), a.height.input, a.width.input, a.channels);
    const T value = image[i];
    T sum = T(0);
    ForEachWindow(a, p, [&](int row, int column) {
      const int64_t window = InPooled(a, p, row, column);
      const T best = pooled[window];
      if (value != best || (a.of_relu != 0 && !(best > T(0)))) return;
      if (IsFirst(a, image, p, row, column, best)) sum += gradient[window];
    });
    static_cast<T*>(a.y.of(lane))[i] = sum;
  }
}

template <typename T>
__device__ void AvgPoolGrad(const PoolArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* gradient = static_cast<const T*>(a.gradient.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const Place p = PlaceOf(static_cast<uint32_t>(i), a.height.input, a.width.input, a.channels);
    T sum = T(0);
    ForEachWindow(a, p, [&](int row, int column) {
      sum += gradient[InPooled(a, p, row, column)] / static_cast<T>(CountOf(a.height, row) * CountOf(a.width, column));
    });
    static_cast<T*>(a.y.of(lane))[i] = sum;
  }
}

#define RIVULET_GPU_POOL_KERNEL(name, Function, T)                    \
  __global__ void Function##_##T(PoolArguments a) { Function<T>(a); } \
  RIVULET_GPU_KERNEL(name "_" #T, PoolArguments, Function##_##T, GridOver(a.count, a.lanes));
#define RIVULET_GPU_POOL_KERNELS(T)                        \
  RIVULET_GPU_POOL_KERNEL("max_pool", MaxPool, T)          \
  RIVULET_GPU_POOL_KERNEL("max_pool_grad", MaxPoolGrad, T) \
  RIVULET_GPU_POOL_KERNEL("avg_pool", AvgPool, T)          \
  RIVULET_GPU_POOL_KERNEL("avg_pool_grad", AvgPoolGrad, T)
RIVULET_GPU_POOL_KERNELS(float)
RIVULET_GPU_POOL_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
