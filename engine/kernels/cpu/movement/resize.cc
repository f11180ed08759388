// Resizing of NHWC images. The source of each row and column
// of the result is computed when the kernel is prepared.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

struct Centers {
  bool align_corners = false, half_pixel = false;
  explicit Centers(const NodeView& node)
      : align_corners(node.attr<bool>("align_corners")), half_pixel(node.attr<bool>("half_pixel_centers")) {}
  // In float, as in TensorFlow, so that the same pixel is nearest.
  float Scale(int64_t from, int64_t to) const {
    return align_corners && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                   : static_cast<float>(from) / static_cast<float>(to);
  }
};

// For each position of the result, the nearest position of the source.
std::vector<int64_t> Nearest(const Centers& centers, int64_t from, int64_t to) {
  const float scale = centers.Scale(from, to);
  std::vector<int64_t> source;
  for (int64_t i = 0; i < to; ++i) {
    const float at = (static_cast<float>(i) + (centers.half_pixel ? 0.5f : 0.0f)) * scale;
    source.push_back(std::clamp(static_cast<int64_t>(centers.align_corners ? std::round(at) : std::floor(at)),
                                int64_t{0}, from - 1));
  }
  return source;
}

// For each position of the result, its two neighbours in the source and the weight of the upper one.
struct Between {
  int64_t lower = 0, upper = 0;
  float share = 0;
};
std::vector<Between> Neighbours(const Centers& centers, int64_t from, int64_t to) {
  const float scale = centers.Scale(from, to);
  std::vector<Between> between;
  for (int64_t i = 0; i < to; ++i) {
    const float at = centers.half_pixel ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const float floor = std::floor(at);
    between.push_back({std::clamp(static_cast<int64_t>(floor), int64_t{0}, from - 1),
                       std::clamp(static_cast<int64_t>(std::ceil(at)), int64_t{0}, from - 1), at - floor});
  }
  return between;
}

struct Images {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  explicit Images(const Shape& shape)
      : batch(shape.dim(0)), height(shape.dim(1)), width(shape.dim(2)), channels(shape.dim(3)) {}
  int64_t Row(int64_t image, int64_t y) const { return (image * height + y) * width * channels; }
};

// Sizes of images before and after, and the source of each row and column.
template <typename Place>
struct Grid {
  Images from, to;
  std::vector<Place> rows, columns;
  template <typename PlacesOf>
  Grid(const NodeView& node, const Shape& from_shape, const Shape& to_shape, PlacesOf places_of)
      : from(from_shape),
        to(to_shape),
        rows(places_of(Centers(node), from.height, to.height)),
        columns(places_of(Centers(node), from.width, to.width)) {}
};

class NearestKernel final : public Kernel {
 public:
  explicit NearestKernel(const NodeView& node)
      : grid_(node, node.inputs[0].shape, node.outputs[0].shape, Nearest), element_(SizeOf(node.outputs[0].dtype)) {}
  Status Run(const KernelContext& context) const override {
    const size_t pixel = static_cast<size_t>(grid_.from.channels) * element_;
    std::byte* out = context.outputs[0];
    for (int64_t image = 0; image < grid_.to.batch && pixel > 0; ++image)
      for (int64_t y : grid_.rows) {
        const std::byte* row = context.inputs[0] + static_cast<size_t>(grid_.from.Row(image, y)) * element_;
        for (int64_t x : grid_.columns) {
          std::memcpy(out, row + static_cast<size_t>(x) * pixel, pixel);
          out += pixel;
        }
      }
    return absl::OkStatus();
  }

 private:
  Grid<int64_t> grid_;
  size_t element_;
};

StatusOr<Prepared> PrepareNearest(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<NearestKernel>(node);
  prepared.implementation = "copy";
  return prepared;
}

// The gradient of resizing: gathers the gradients of the result by source position.
template <typename T, typename Place>
class ResizeGradKernel : public Kernel {
 protected:
  template <typename PlacesOf>
  ResizeGradKernel(const NodeView& node, PlacesOf places_of)
      : grid_(node, node.outputs[0].shape, node.inputs[0].shape, places_of) {}
  T* Zeros(const KernelContext& context) const {
    T* out = OutputOf<T>(context, 0);
    std::fill_n(out, grid_.from.batch * grid_.from.height * grid_.from.width * grid_.from.channels, T{0});
    return out;
  }
  Grid<Place> grid_;
};

template <typename T>
class NearestGradKernel final : public ResizeGradKernel<T, int64_t> {
 public:
  explicit NearestGradKernel(const NodeView& node) : ResizeGradKernel<T, int64_t>(node, Nearest) {}
  Status Run(const KernelContext& context) const override {
    const T* grads = InputOf<T>(context, 0);
    T* out = this->Zeros(context);
    const auto& grid = this->grid_;
    const int64_t channels = grid.from.channels;
    for (int64_t image = 0; image < grid.from.batch; ++image)
      for (int64_t y : grid.rows) {
        T* row = out + grid.from.Row(image, y);
        for (int64_t x : grid.columns) {
          for (int64_t c = 0; c < channels; ++c) row[x * channels + c] += grads[c];
          grads += channels;
        }
      }
    return absl::OkStatus();
  }
};

template <typename T>
class BilinearKernel final : public Kernel {
 public:
  explicit BilinearKernel(const NodeView& node)
      : grid_(node, node.inputs[0].shape, node.outputs[0].shape, Neighbours) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    float* out = OutputOf<float>(context, 0);
    const int64_t channels = grid_.from.channels;
    for (int64_t image = 0; image < grid_.to.batch; ++image)
      for (const Between& y : grid_.rows) {
        const T *top = in + grid_.from.Row(image, y.lower), *bottom = in + grid_.from.Row(image, y.upper);
        for (const Between& x : grid_.columns) {
          const int64_t left = x.lower * channels, right = x.upper * channels;
          for (int64_t c = 0; c < channels; ++c) {
            const float above = Mix(top[left + c], top[right + c], x.share);
            const float below = Mix(bottom[left + c], bottom[right + c], x.share);
            *out++ = above + (below - above) * y.share;
          }
        }
      }
    return absl::OkStatus();
  }

 private:
  static float Mix(T a, T b, float share) {
    const float x = static_cast<float>(a), y = static_cast<float>(b);
    return x + (y - x) * share;
  }
  Grid<Between> grid_;
};

template <typename T>
StatusOr<Prepared> PrepareBilinear(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<BilinearKernel<T>>(node);
  prepared.implementation = "loop";
  prepared.flops = 8.0 * static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

template <typename T>
class BilinearGradKernel final : public ResizeGradKernel<T, Between> {
 public:
  explicit BilinearGradKernel(const NodeView& node) : ResizeGradKernel<T, Between>(node, Neighbours) {}
  Status Run(const KernelContext& context) const override {
    const float* grads = InputOf<float>(context, 0);
    T* out = this->Zeros(context);
    const auto& grid = this->grid_;
    const int64_t channels = grid.from.channels;
    for (int64_t image = 0; image < grid.from.batch; ++image)
      for (const Between& y : grid.rows) {
        T *top = out + grid.from.Row(image, y.lower), *bottom = out + grid.from.Row(image, y.upper);
        for (const Between& x : grid.columns) {
          const int64_t left = x.lower * channels, right = x.upper * channels;
          for (int64_t c = 0; c < channels; ++c) {
            const float g = *grads++;
            top[left + c] += static_cast<T>(g * (1 - y.share) * (1 - x.share));
            top[right + c] += static_cast<T>(g * (1 - y.share) * x.share);
            bottom[left + c] += static_cast<T>(g * y.share * (1 - x.share));
            bottom[right + c] += static_cast<T>(g * y.share * x.share);
          }
        }
      }
    return absl::OkStatus();
  }
};

template <typename GradKernel>
StatusOr<Prepared> PrepareResizeGrad(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<GradKernel>(node);
  prepared.implementation = "loop";
  return prepared;
}

RIVULET_KERNEL_OF_EVERY_SIZE("ResizeNearestNeighbor", PrepareNearest);
RIVULET_KERNEL("ResizeNearestNeighborGrad", Device::kCpu, float, PrepareResizeGrad<NearestGradKernel<float>>);
RIVULET_KERNEL("ResizeNearestNeighborGrad", Device::kCpu, double, PrepareResizeGrad<NearestGradKernel<double>>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, float, PrepareBilinear<float>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, double, PrepareBilinear<double>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, int8_t, PrepareBilinear<int8_t>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, uint8_t, PrepareBilinear<uint8_t>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, int16_t, PrepareBilinear<int16_t>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, uint16_t, PrepareBilinear<uint16_t>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, int32_t, PrepareBilinear<int32_t>);
RIVULET_KERNEL("ResizeBilinear", Device::kCpu, int64_t, PrepareBilinear<int64_t>);
RIVULET_KERNEL("ResizeBilinearGrad", Device::kCpu, float, PrepareResizeGrad<BilinearGradKernel<float>>);
RIVULET_KERNEL("ResizeBilinearGrad", Device::kCpu, double, PrepareResizeGrad<BilinearGradKernel<double>>);

}  // namespace
}  // namespace rivulet
