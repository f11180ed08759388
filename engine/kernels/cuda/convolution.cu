// Convolutions and their gradients as implicit products: the matrix of patches is never stored; its elements are loaded
// from the image when a tile needs them.
//
//   forward          c[pixel of the result, channel]  = Σ over taps      image[pixel, tap]      · filter[tap, channel]
//   image's gradient c[pixel of the image, channel]   = Σ over taps back gradient[pixel, tap]   · filter[tap, channel]
//   filter's         c[tap, channel]                  = Σ over pixels    image[pixel, tap]      · gradient[pixel,
//   channel]
//
// A tap is (row, column, input channel) of the filter; backwards (row, column, output channel).
#include "engine/kernels/cuda/convolution.h"
#include "engine/kernels/cuda/product_result.h"
#include "engine/kernels/cuda/product_tile.h"

namespace rivulet::gpu {
namespace {

// Outside of any image, even after adding a window's distances.
constexpr int32_t kNowhere = -(1 << 30);

// The first pixel of the window for one pixel of the result, and its element; both may be in the padding. Three 32-bit
// numbers, because a thread keeps many of these.
struct WindowPlace {
  int32_t first, y, x;
};
// Distances from the window's first pixel, and from its first element.
struct Tap {
  int32_t offset, y, x;
};

template <typename T>
struct Patches {
  const T* data;
  const ConvolutionGeometry& g;
  int pixels, taps;

  __device__ WindowPlace PlaceOfPixel(int i) const {
    if (i >= pixels) return {0, kNowhere, 0};
    uint32_t image = static_cast<uint32_t>(i);
    const int column = static_cast<int>(g.out_width.Split(image)), row = static_cast<int>(g.out_height.Split(image));
    const int y = row * static_cast<int>(g.stride_height.divisor) - g.pad_top;
    const int x = column * static_cast<int>(g.stride_width.divisor) - g.pad_left;
    const int channels = static_cast<int>(g.in_channels.divisor);
    return {((static_cast<int>(image) * g.in_height + y) * g.in_width + x) * channels, y, x};
  }
  __device__ Tap TapAt(int k) const {
    if (k >= taps) return {0, 0, kNowhere};
    uint32_t row = static_cast<uint32_t>(k);
    const int channel = static_cast<int>(g.in_channels.Split(row));
    const int x = static_cast<int>(g.width.Split(row)) * g.step_width, y = static_cast<int>(row) * g.step_height;
    return {(y * g.in_width + x) * static_cast<int>(g.in_channels.divisor) + channel, y, x};
  }
  __device__ T ElementAt(const WindowPlace& place, const Tap& tap) const {
    const bool inside = static_cast<uint32_t>(place.y + tap.y) < static_cast<uint32_t>(g.in_height) &&
                        static_cast<uint32_t>(place.x + tap.x) < static_cast<uint32_t>(g.in_width);
    return inside ? data[place.first + tap.offset] : T(0);
  }
};

template <typename T>
struct PatchesByPixel : Patches<T> {
  using Element = T;
  using Line = WindowPlace;
  using Depth = Tap;
  static constexpr bool kAlongDepth = true;  // channels of a pixel are adjacent
  __device__ Line line(int i) const { return this->PlaceOfPixel(i); }
  __device__ Depth depth(int k) const { return this->TapAt(k); }
  __device__ T at(const Line& line, const Depth& depth) const { return this->ElementAt(line, depth); }
};
template <typename T>
struct PatchesByTap : Patches<T> {
  using Element = T;
  using Line = Tap;
  using Depth = WindowPlace;
  static constexpr bool kAlongDepth = false;
  __device__ Line line(int i) const { return this->TapAt(i); }
  __device__ Depth depth(int k) const { return this->PlaceOfPixel(k); }
  __device__ T at(const Line& line, const Depth& depth) const { return this->ElementAt(depth, line); }
};

// The pixels of the gradient whose windows contain a pixel of the image.
template <typename T>
struct GradientPatches {
  using Element = T;
  struct Line {
    int32_t image, y, x;  // the image's first row among all rows; the pixel in the padded image
  };
  struct Depth {
    int32_t channel, y, x;
  };
  static constexpr bool kAlongDepth = true;
  const T* data;
  const ConvolutionGeometry& g;
  int pixels, taps;

  __device__ Line line(int i) const {
    if (i >= pixels) return {0, kNowhere, 0};
    uint32_t image = static_cast<uint32_t>(i);
    const int x = static_cast<int>(g.in_widths.Split(image)), y = static_cast<int>(g.in_heights.Split(image));
    return {static_cast<int>(image * g.out_height.divisor), y + g.pad_top, x + g.pad_left};
  }
  __device__ Depth depth(int k) const {
    if (k >= taps) return {0, 0, -kNowhere};
    uint32_t row = static_cast<uint32_t>(k);
    const int channel = static_cast<int>(g.out_channels.Split(row)), column = static_cast<int>(g.width.Split(row));
    return {channel, static_cast<int>(row) * g.step_height, column * g.step_width};
  }
  __device__ T at(const Line& line, const Depth& tap) const {
    const int y = line.y - tap.y, x = line.x - tap.x;
    if (y < 0 || x < 0) return T(0);
    uint32_t row = static_cast<uint32_t>(y), column = static_cast<uint32_t>(x);
    // Windows start at every stride-th pixel.
    if (g.stride_height.Split(row) != 0 || g.stride_width.Split(column) != 0) return T(0);
    if (row >= g.out_height.divisor || column >= g.out_width.divisor) return T(0);
    const uint32_t pixel = (static_cast<uint32_t>(line.image) + row) * g.out_width.divisor + column;
    return data[pixel * g.out_channels.divisor + static_cast<uint32_t>(tap.channel)];
  }
};

// The same for stride 1: a pixel's windows are then a window of the gradient, traversed backwards.
template <typename T>
struct DenseGradientPatches {
  using Element = T;
  using Line = WindowPlace;
  using Depth = Tap;
  static constexpr bool kAlongDepth = true;
  const T* data;
  const ConvolutionGeometry& g;
  int pixels, taps;

  __device__ Line line(int i) const {
    if (i >= pixels) return {0, kNowhere, 0};
    uint32_t image = static_cast<uint32_t>(i);
    const int x = static_cast<int>(g.in_widths.Split(image)) + g.pad_left;
    const int y = static_cast<int>(g.in_heights.Split(image)) + g.pad_top;
    const int height = static_cast<int>(g.out_height.divisor), width = static_cast<int>(g.out_width.divisor);
    return {((static_cast<int>(image) * height + y) * width + x) * static_cast<int>(g.out_channels.divisor), y, x};
  }
  __device__ Depth depth(int k) const {
    if (k >= taps) return {0, 0, -kNowhere};
    uint32_t row = static_cast<uint32_t>(k);
    const int channel = static_cast<int>(g.out_channels.Split(row));
    const int x = static_cast<int>(g.width.Split(row)) * g.step_width, y = static_cast<int>(row) * g.step_height;
    return {(y * static_cast<int>(g.out_width.divisor) + x) * static_cast<int>(g.out_channels.divisor) - channel, y, x};
  }
  __device__ T at(const Line& line, const Depth& tap) const {
    const bool inside = static_cast<uint32_t>(line.y - tap.y) < g.out_height.divisor &&
                        static_cast<uint32_t>(line.x - tap.x) < g.out_width.divisor;
    return inside ? data[line.first - tap.offset] : T(0);
  }
};

// The other factor; positions outside it are negative.
template <typename T>
struct Factor {
  using Element = T;
  struct Line {
    int32_t place;
  };
  struct Depth {
    int32_t place;
  };
  const T* data;
  __device__ T at(const Line& line, const Depth& depth) const {
    return (line.place | depth.place) >= 0 ? data[line.place + depth.place] : T(0);
  }
};

// A row-major matrix [depth, lines].
template <typename T>
struct RowMajor : Factor<T> {
  using typename Factor<T>::Line;
  using typename Factor<T>::Depth;
  static constexpr bool kAlongDepth = false;
  int lines, depths;
  __device__ RowMajor(const T* data, int lines, int depths) : Factor<T>{data}, lines(lines), depths(depths) {}
  __device__ Line line(int i) const { return {i < lines ? i : -1}; }
  __device__ Depth depth(int k) const { return {k < depths ? k * lines : -1}; }
};

// The filter with input channels as lines and (row, column, output channel) as depth.
template <typename T>
struct TurnedFilter : Factor<T> {
  using typename Factor<T>::Line;
  using typename Factor<T>::Depth;
  static constexpr bool kAlongDepth = true;
  const ConvolutionGeometry& g;
  int depths;
  __device__ TurnedFilter(const T* data, const ConvolutionGeometry& g, int depths)
      : Factor<T>{data}, g(g), depths(depths) {}
  __device__ Line line(int i) const {
    return {i < static_cast<int>(g.in_channels.divisor) ? i * static_cast<int>(g.out_channels.divisor) : -1};
  }
  __device__ Depth depth(int k) const {
    if (k >= depths) return {-1};
    uint32_t tap = static_cast<uint32_t>(k);
    const uint32_t channel = g.out_channels.Split(tap);
    return {static_cast<int32_t>(tap * g.in_channels.divisor * g.out_channels.divisor + channel)};
  }
};

enum class Direction { kForward, kInput, kInputDense, kFilter };

template <bool kTensor, Direction kDirection, typename T, int kRows, int kColumns>
__device__ void Convolution(const ConvolutionArguments& c) {
  const int lane = c.lanes.Number(blockIdx.z);
  uint32_t place = blockIdx.x;
  const int chunk = static_cast<int>(c.chunks.count.Split(place));
  const int column = static_cast<int>(c.column_tiles.Split(place)) * 16 * kColumns;
  const int row = static_cast<int>(place) * 16 * kRows;
  const T *a = static_cast<const T*>(c.a.of(lane)), *b = static_cast<const T*>(c.b.of(lane));
  const auto compute = [&](const auto& patches, const auto& factor) {
    ComputeTile<kTensor, kRows, kColumns>(patches, factor, row, column, c.rows, c.columns, c.depth, c.chunks, chunk,
                                          static_cast<T*>(c.c.of(lane)), c.columns, c.epilogue, lane);
  };
  if constexpr (kDirection == Direction::kForward) {
    compute(PatchesByPixel<T>{{a, c.geometry, c.rows, c.depth}}, RowMajor<T>{b, c.columns, c.depth});
  } else if constexpr (kDirection == Direction::kInputDense) {
    compute(DenseGradientPatches<T>{a, c.geometry, c.rows, c.depth}, TurnedFilter<T>{b, c.geometry, c.depth});
  } else if constexpr (kDirection == Direction::kInput) {
    compute(GradientPatches<T>{a, c.geometry, c.rows, c.depth}, TurnedFilter<T>{b, c.geometry, c.depth});
  } else {
    compute(PatchesByTap<T>{{a, c.geometry, c.depth, c.rows}}, RowMajor<T>{b, c.columns, c.depth});
  }
}

Grid GridOfConvolution(const ConvolutionArguments& c) {
  return {c.chunks.count.divisor * c.row_tiles.divisor * c.column_tiles.divisor, 1,
          static_cast<uint32_t>(c.lanes.count), kTileThreads};
}

#define RIVULET_GPU_CONVOLUTION_KERNEL(tensor, name, direction, type, T, tile, rows, columns)                   \
  __global__ void __launch_bounds__(kTileThreads, 2)                                                            \
      Convolution_##direction##_##type##_##tile(ConvolutionArguments c) {                                       \
    Convolution<tensor, Direction::direction, T, rows, columns>(c);                                             \
  }                                                                                                             \
  RIVULET_GPU_KERNEL(name "_" #type "_" #tile, ConvolutionArguments, Convolution_##direction##_##type##_##tile, \
                     GridOfConvolution(a));
#define RIVULET_GPU_CONVOLUTION_KERNELS(tensor, type, T, tile, rows, columns)                                  \
  RIVULET_GPU_CONVOLUTION_KERNEL(tensor, "convolution", kForward, type, T, tile, rows, columns)                \
  RIVULET_GPU_CONVOLUTION_KERNEL(tensor, "convolution_input", kInput, type, T, tile, rows, columns)            \
  RIVULET_GPU_CONVOLUTION_KERNEL(tensor, "convolution_input_dense", kInputDense, type, T, tile, rows, columns) \
  RIVULET_GPU_CONVOLUTION_KERNEL(tensor, "convolution_filter", kFilter, type, T, tile, rows, columns)
#define RIVULET_GPU_FLOAT_CONVOLUTION(tile, rows, columns)                  \
  RIVULET_GPU_CONVOLUTION_KERNELS(false, float, float, tile, rows, columns) \
  RIVULET_GPU_CONVOLUTION_KERNELS(true, tf32, float, tile, rows, columns)
#define RIVULET_GPU_DOUBLE_CONVOLUTION(tile, rows, columns) \
  RIVULET_GPU_CONVOLUTION_KERNELS(false, double, double, tile, rows, columns)
__global__ void PatchesInMemory(PatchesArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Patches<float> patches{a.image.of(lane), a.geometry, a.pixels, a.taps};
  float* const to = a.patches.of(lane);
  const int64_t count = int64_t{a.pixels} * a.taps;
  for (int64_t i = FirstElement(); i < count; i += ElementStride()) {
    uint32_t pixel = static_cast<uint32_t>(i);
    const int tap = static_cast<int>(a.by_taps.Split(pixel));
    to[i] = patches.ElementAt(patches.PlaceOfPixel(static_cast<int>(pixel)), patches.TapAt(tap));
  }
}
RIVULET_GPU_KERNEL("patches_float", PatchesArguments, PatchesInMemory, GridOver(int64_t{a.pixels} * a.taps, a.lanes));

RIVULET_GPU_TILES(RIVULET_GPU_FLOAT_CONVOLUTION)
RIVULET_GPU_DOUBLE_TILES(RIVULET_GPU_DOUBLE_CONVOLUTION)

}  // namespace
}  // namespace rivulet::gpu
