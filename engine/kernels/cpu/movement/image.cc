// Colours, crops and mappings of NHWC images, with TensorFlow's float arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/math.h"
#include "engine/base/trigonometry.h"
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

struct ImageBatch {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  explicit ImageBatch(const Shape& shape)
      : batch(shape.dim(0)), height(shape.dim(1)), width(shape.dim(2)), channels(shape.dim(3)) {}
  int64_t At(int64_t image, int64_t y, int64_t x) const { return ((image * height + y) * width + x) * channels; }
};

template <typename T>
void ToHsv(const T* rgb, T* hsv) {
  const T r = rgb[0], g = rgb[1], b = rgb[2], most = std::max({r, g, b}), range = most - std::min({r, g, b});
  hsv[1] = most > 0 ? range / most : T{0};
  hsv[2] = most;
  if (!(range > 0)) {
    hsv[0] = 0;
    return;
  }
  const T norm = T{1} / (T{6} * range);
  T hue = most == r ? norm * (g - b) : most == g ? norm * (b - r) + T{2} / T{6} : norm * (r - g) + T{4} / T{6};
  hsv[0] = hue < 0 ? hue + 1 : hue;
}

template <typename T>
void ToRgb(const T* hsv, T* rgb) {
  const T six = hsv[0] * 6, value = hsv[2];
  const T shares[3] = {std::clamp(std::abs(six - 3) - 1, T{0}, T{1}), std::clamp(2 - std::abs(six - 2), T{0}, T{1}),
                       std::clamp(2 - std::abs(six - 4), T{0}, T{1})};
  for (size_t i = 0; i < 3; ++i) rgb[i] = ((1 - hsv[1]) + hsv[1] * shares[i]) * value;
}

template <typename T, void (*kConvert)(const T*, T*)>
StatusOr<Prepared> PrepareColours(const NodeView& node, const KernelPolicy&) {
  const int64_t pixels = node.inputs[0].shape.elements() / 3;
  return MakeFunctionKernel([pixels](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < pixels; ++i) kConvert(InputOf<T>(c, 0) + 3 * i, OutputOf<T>(c, 0) + 3 * i);
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PrepareContrast(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  const int64_t channels = shape.dim(shape.rank() - 1);
  const int64_t pixels = shape.dim(shape.rank() - 2) * shape.dim(shape.rank() - 3);
  const int64_t images = channels * pixels == 0 ? 0 : shape.elements() / (channels * pixels);
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const float factor = *InputOf<float>(c, 1);
    for (int64_t image = 0; image < images; ++image)
      for (int64_t channel = 0; channel < channels; ++channel) {
        const float* in = InputOf<float>(c, 0) + image * pixels * channels + channel;
        float* out = OutputOf<float>(c, 0) + image * pixels * channels + channel;
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += static_cast<double>(in[i * channels]);
        const float mean = static_cast<float>(sum / static_cast<double>(pixels));
        for (int64_t i = 0; i < pixels; ++i) out[i * channels] = (in[i * channels] - mean) * factor + mean;
      }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareCrop(const NodeView& node, const KernelPolicy&) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const bool nearest = node.attr<std::string>("method") == "nearest";
  const float outside = node.attr<float>("extrapolation_value");
  if (node.inputs[1].shape.dim(1) != 4 || node.inputs[2].shape.dim(0) != to.batch)
    return InvalidArgument("boxes {} and box_ind {} are not [n,4] and [n]", node.inputs[1].shape.ToString(),
                           node.inputs[2].shape.ToString());
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const T* images = InputOf<T>(c, 0);
    for (int64_t box = 0; box < to.batch; ++box) {
      const float* corners = InputOf<float>(c, 1) + 4 * box;
      const int64_t image = InputOf<int32_t>(c, 2)[box];
      if (image < 0 || image >= from.batch)
        return InvalidArgument("box_ind[{}] is {}, of {} images", box, image, from.batch);
      const auto place = [](float low, float high, int64_t size, int64_t count, int64_t i) {
        const float last = static_cast<float>(size - 1);
        if (count == 1) return 0.5f * (low + high) * last;
        return low * last + static_cast<float>(i) * ((high - low) * last / static_cast<float>(count - 1));
      };
      for (int64_t y = 0; y < to.height; ++y) {
        const float in_y = place(corners[0], corners[2], from.height, to.height, y);
        const bool row_inside = in_y >= 0 && in_y <= static_cast<float>(from.height - 1);
        for (int64_t x = 0; x < to.width; ++x) {
          float* out = OutputOf<float>(c, 0) + to.At(box, y, x);
          const float in_x = place(corners[1], corners[3], from.width, to.width, x);
          if (!row_inside || !(in_x >= 0 && in_x <= static_cast<float>(from.width - 1))) {
            std::fill_n(out, to.channels, outside);
            continue;
          }
          if (nearest) {
            const T* pixel =
                images + from.At(image, static_cast<int64_t>(std::round(in_y)), static_cast<int64_t>(std::round(in_x)));
            for (int64_t k = 0; k < to.channels; ++k) out[k] = static_cast<float>(pixel[k]);
            continue;
          }
          const auto top = static_cast<int64_t>(std::floor(in_y)), bottom = static_cast<int64_t>(std::ceil(in_y));
          const auto left = static_cast<int64_t>(std::floor(in_x)), right = static_cast<int64_t>(std::ceil(in_x));
          const float down = in_y - static_cast<float>(top), across = in_x - static_cast<float>(left);
          for (int64_t k = 0; k < to.channels; ++k) {
            const auto pixel = [&](int64_t row, int64_t column) {
              return static_cast<float>(images[from.At(image, row, column) + k]);
            };
            const float upper = pixel(top, left) + (pixel(top, right) - pixel(top, left)) * across;
            const float lower = pixel(bottom, left) + (pixel(bottom, right) - pixel(bottom, left)) * across;
            out[k] = upper + (lower - upper) * down;
          }
        }
      }
    }
    return absl::OkStatus();
  });
}

enum class FillMode { kConstant, kNearest, kReflect, kWrap };

// Maps a position outside [0, size) into it by the fill mode; for a constant fill it is unchanged.
float Brought(FillMode fill, float at, int64_t size) {
  const float last = static_cast<float>(size - 1);
  switch (fill) {
    case FillMode::kNearest:
      return std::clamp(at, 0.0f, last);
    case FillMode::kReflect: {
      // Edges are repeated: (d c b a | a b c d | d c b a).
      if (at < 0) {
        if (size <= 1) return 0;
        const float period = 2 * static_cast<float>(size);
        if (at < -period) at += period * static_cast<float>(static_cast<int64_t>(-at / period));
        at = at < -static_cast<float>(size) ? at + period : -at - 1;
      } else if (at > last) {
        if (size <= 1) return 0;
        const float period = 2 * static_cast<float>(size);
        at -= period * static_cast<float>(static_cast<int64_t>(at / period));
        if (at >= static_cast<float>(size)) at = period - at - 1;
      }
      return std::clamp(at, 0.0f, last);
    }
    case FillMode::kWrap: {
      if (at < 0) {
        if (size <= 1) return 0;
        at += static_cast<float>(size) * static_cast<float>(static_cast<int64_t>(-at / last) + 1);
      } else if (at > last) {
        if (size <= 1) return 0;
        at -= static_cast<float>(size) * static_cast<float>(static_cast<int64_t>(at / last));
      }
      return std::clamp(at, 0.0f, last);
    }
    case FillMode::kConstant:
      return at;
  }
  return at;
}

template <typename T>
StatusOr<Prepared> PrepareProjective(const NodeView& node, const KernelPolicy&) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const bool nearest = node.attr<std::string>("interpolation") == "NEAREST";
  const std::string& mode = node.attr<std::string>("fill_mode");
  const FillMode fill = mode == "NEAREST"   ? FillMode::kNearest
                        : mode == "REFLECT" ? FillMode::kReflect
                        : mode == "WRAP"    ? FillMode::kWrap
                                            : FillMode::kConstant;
  const Shape& maps = node.inputs[1].shape;
  if (maps.dim(1) != 8 || (maps.dim(0) != 1 && maps.dim(0) != from.batch))
    return InvalidArgument("transforms {} are not [1,8] or [batch,8]", maps.ToString());
  return MakeFunctionKernel([=, own = maps.dim(0) > 1](const KernelContext& c) -> Status {
    const T* images = InputOf<T>(c, 0);
    const T outside = static_cast<T>(*InputOf<float>(c, 3));
    for (int64_t image = 0; image < to.batch; ++image) {
      const float* m = InputOf<float>(c, 1) + (own ? 8 * image : 0);
      for (int64_t row = 0; row < to.height; ++row)
        for (int64_t column = 0; column < to.width; ++column) {
          T* out = OutputOf<T>(c, 0) + to.At(image, row, column);
          const float fx = static_cast<float>(column), fy = static_cast<float>(row);
          const float k = m[6] * fx + m[7] * fy + 1;
          if (k == 0) {
            std::fill_n(out, to.channels, outside);
            continue;
          }
          const float x = Brought(fill, (m[0] * fx + m[1] * fy + m[2]) / k, from.width);
          const float y = Brought(fill, (m[3] * fx + m[4] * fy + m[5]) / k, from.height);
          const auto pixel = [&](float py, float px, int64_t channel) {
            const bool inside =
                py >= 0 && py < static_cast<float>(from.height) && px >= 0 && px < static_cast<float>(from.width);
            return inside ? images[from.At(image, static_cast<int64_t>(py), static_cast<int64_t>(px)) + channel]
                          : outside;
          };
          for (int64_t channel = 0; channel < to.channels; ++channel) {
            if (nearest) {
              out[channel] = pixel(std::round(y), std::round(x), channel);
              continue;
            }
            const float top = std::floor(y), left = std::floor(x), bottom = top + 1, right = left + 1;
            const auto value = [&](float py, float px) { return static_cast<float>(pixel(py, px, channel)); };
            const float upper = (right - x) * value(top, left) + (x - left) * value(top, right);
            const float lower = (right - x) * value(bottom, left) + (x - left) * value(bottom, right);
            out[channel] = static_cast<T>((bottom - y) * upper + (y - top) * lower);
          }
        }
    }
    return absl::OkStatus();
  });
}

// For each position of a result: the start of its weights in the source, and the weights.
struct PixelWeights {
  std::vector<int64_t> first;
  std::vector<std::vector<float>> weights;
};

// Each position covers [i, i + 1) · scale of the source.
PixelWeights AreaWeights(int64_t from, int64_t to, bool align_corners) {
  const float scale = align_corners && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                              : static_cast<float>(from) / static_cast<float>(to);
  PixelWeights all;
  for (int64_t i = 0; i < to; ++i) {
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    const auto first = static_cast<int64_t>(std::floor(begin)), last = static_cast<int64_t>(std::ceil(end));
    all.first.push_back(std::clamp(first, int64_t{0}, from - 1));
    std::vector<float>& weights = all.weights.emplace_back();
    for (int64_t j = first; j < last; ++j) {
      const float low = static_cast<float>(j), high = static_cast<float>(j + 1);
      float share = 1;
      if (low < begin)
        share = high > end ? scale : high - begin;
      else if (high > end)
        share = end - low;
      // Pixels outside the source repeat its edge.
      const auto at = static_cast<size_t>(std::clamp(j, int64_t{0}, from - 1) - all.first.back());
      if (weights.size() <= at) weights.resize(at + 1, 0);
      weights[at] += share / scale;
    }
  }
  return all;
}

// Pixel weights as in jax.image and TensorFlow's scale_and_translate_op.
float ScaleKernel(const std::string& type, float x) {
  x = std::abs(x);
  const auto lanczos = [x](float radius) {
    if (x > radius) return 0.0f;
    if (x <= 1e-3f) return 1.0f;
    const double at = 3.14159265358979323846 * static_cast<double>(x);
    return static_cast<float>(static_cast<double>(radius) * math::Sin(at) *
                              math::Sin(at / static_cast<double>(radius)) / (at * at));
  };
  if (type == "lanczos1") return lanczos(1);
  if (type == "lanczos3") return lanczos(3);
  if (type == "lanczos5") return lanczos(5);
  if (type == "gaussian") {
    constexpr float kDeviation = 0.5f;
    return x >= 1.5f ? 0.0f
                     : static_cast<float>(math::Exp(static_cast<double>(-x * x / (2 * kDeviation * kDeviation))));
  }
  if (type == "box") return x < 0.5f ? 1.0f : x == 0.5f ? 0.5f : 0.0f;
  if (type == "triangle") return x < 1 ? 1 - x : 0.0f;
  if (type == "keyscubic") {
    if (x >= 2) return 0;
    return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f : ((1.5f * x - 2.5f) * x) * x + 1.0f;
  }
  if (x >= 2) return 0;
  return x >= 1 ? (((-7.0f / 18.0f) * x + 2.0f) * x - 10.0f / 3.0f) * x + 16.0f / 9.0f
                : (((7.0f / 6.0f) * x - 2.0f) * x) * x + 8.0f / 9.0f;
}
float ScaleRadius(const std::string& type) {
  if (type == "lanczos1" || type == "triangle") return 1;
  if (type == "lanczos3") return 3;
  if (type == "lanczos5") return 5;
  if (type == "gaussian") return 1.5f;
  return type == "box" ? 0.5f : 2;
}

PixelWeights ScaleWeights(const std::string& type, bool antialias, int64_t from, int64_t to, float scale, float move) {
  const float inverse = 1 / scale, stretch = antialias ? std::max(inverse, 1.0f) : 1;
  const float reach = ScaleRadius(type) * stretch;
  PixelWeights all;
  for (int64_t i = 0; i < to; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * inverse - move * inverse;
    std::vector<float>& weights = all.weights.emplace_back();
    all.first.push_back(0);
    if (at < 0 || at > static_cast<float>(from)) continue;
    const auto begin = std::max<int64_t>(static_cast<int64_t>(std::ceil(at - reach - 0.5f)), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(std::floor(at + reach - 0.5f)), from - 1);
    all.first.back() = begin;
    float total = 0;
    for (int64_t j = begin; j <= end; ++j) {
      weights.push_back(ScaleKernel(type, (static_cast<float>(j) + 0.5f - at) / stretch));
      total += weights.back();
    }
    if (std::abs(total) < 1000 * std::numeric_limits<float>::min()) weights.clear();
    for (float& weight : weights) weight /= total;
  }
  return all;
}

template <typename T>
void Weighted(const ImageBatch& from, const ImageBatch& to, const PixelWeights& rows, const PixelWeights& columns,
              const T* in, float* out) {
  for (int64_t image = 0; image < to.batch; ++image)
    for (int64_t y = 0; y < to.height; ++y)
      for (int64_t x = 0; x < to.width; ++x) {
        float* pixel = out + to.At(image, y, x);
        const std::vector<float>&down = rows.weights[static_cast<size_t>(y)],
              &across = columns.weights[static_cast<size_t>(x)];
        for (int64_t k = 0; k < to.channels; ++k) {
          float sum = 0;
          for (size_t i = 0; i < down.size(); ++i)
            for (size_t j = 0; j < across.size(); ++j)
              sum += down[i] * across[j] *
                     static_cast<float>(in[from.At(image, rows.first[static_cast<size_t>(y)] + static_cast<int64_t>(i),
                                                   columns.first[static_cast<size_t>(x)] + static_cast<int64_t>(j)) +
                                           k]);
          pixel[k] = sum;
        }
      }
}

template <typename T>
StatusOr<Prepared> PrepareArea(const NodeView& node, const KernelPolicy&) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const bool align = node.attr<bool>("align_corners");
  return MakeFunctionKernel([=, rows = AreaWeights(from.height, to.height, align),
                             columns = AreaWeights(from.width, to.width, align)](const KernelContext& c) -> Status {
    Weighted(from, to, rows, columns, InputOf<T>(c, 0), OutputOf<float>(c, 0));
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareScaleAndTranslate(const NodeView& node, const KernelPolicy&) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const Tensor *scale = node.constants[2], *move = node.constants[3];
  if (scale == nullptr || move == nullptr)
    return Unimplemented("scale and translation that are not known when a program is compiled");
  const std::string& type = node.attr<std::string>("kernel_type");
  const bool antialias = node.attr<bool>("antialias");
  const auto of = [&](size_t axis, int64_t in, int64_t out) {
    return ScaleWeights(type, antialias, in, out, scale->flat<float>()[axis], move->flat<float>()[axis]);
  };
  if (scale->elements() != 2 || move->elements() != 2 || !(scale->flat<float>()[0] > 0) ||
      !(scale->flat<float>()[1] > 0))
    return InvalidArgument("scale and translation are two numbers each, and scales are above 0");
  return MakeFunctionKernel([=, rows = of(0, from.height, to.height),
                             columns = of(1, from.width, to.width)](const KernelContext& c) -> Status {
    Weighted(from, to, rows, columns, InputOf<T>(c, 0), OutputOf<float>(c, 0));
    return absl::OkStatus();
  });
}

// Position of a window on an axis.
struct PatchAxis {
  int64_t size = 0, stride = 1, rate = 1, before = 0;
  PatchAxis(int64_t from, int64_t to, int64_t window, int64_t stride_in, int64_t rate_in, bool same)
      : size(from), stride(stride_in), rate(rate_in) {
    if (same) before = std::max<int64_t>((to - 1) * stride + (window - 1) * rate + 1 - from, 0) / 2;
  }
  int64_t At(int64_t position, int64_t step) const { return position * stride - before + step * rate; }
  bool Has(int64_t at) const { return at >= 0 && at < size; }
};

template <typename Word>
StatusOr<Prepared> MakePatches(const NodeView& node) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const auto &sizes = node.attr<std::vector<int64_t>>("ksizes"), &strides = node.attr<std::vector<int64_t>>("strides"),
             &rates = node.attr<std::vector<int64_t>>("rates");
  const bool same = node.attr<std::string>("padding") == "SAME";
  const PatchAxis rows(from.height, to.height, sizes[1], strides[1], rates[1], same);
  const PatchAxis columns(from.width, to.width, sizes[2], strides[2], rates[2], same);
  return MakeFunctionKernel([=, high = sizes[1], wide = sizes[2]](const KernelContext& c) -> Status {
    Word* out = OutputOf<Word>(c, 0);
    for (int64_t image = 0; image < to.batch; ++image)
      for (int64_t y = 0; y < to.height; ++y)
        for (int64_t x = 0; x < to.width; ++x)
          for (int64_t i = 0; i < high; ++i)
            for (int64_t j = 0; j < wide; ++j, out += from.channels) {
              const int64_t row = rows.At(y, i), column = columns.At(x, j);
              if (rows.Has(row) && columns.Has(column))
                std::copy_n(InputOf<Word>(c, 0) + from.At(image, row, column), from.channels, out);
              else
                std::fill_n(out, from.channels, Word{0});
            }
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PreparePatches(const NodeView& node, const KernelPolicy&) {
  switch (SizeOf(node.inputs[0].dtype)) {
    case 1:
      return MakePatches<uint8_t>(node);
    case 2:
      return MakePatches<uint16_t>(node);
    case 4:
      return MakePatches<uint32_t>(node);
    default:
      return MakePatches<uint64_t>(node);
  }
}

template <typename T>
StatusOr<Prepared> PrepareDilation(const NodeView& node, const KernelPolicy&) {
  const ImageBatch from(node.inputs[0].shape), to(node.outputs[0].shape);
  const auto &strides = node.attr<std::vector<int64_t>>("strides"), &rates = node.attr<std::vector<int64_t>>("rates");
  const bool same = node.attr<std::string>("padding") == "SAME";
  const int64_t high = node.inputs[1].shape.dim(0), wide = node.inputs[1].shape.dim(1);
  const PatchAxis rows(from.height, to.height, high, strides[1], rates[1], same);
  const PatchAxis columns(from.width, to.width, wide, strides[2], rates[2], same);
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t image = 0; image < to.batch; ++image)
      for (int64_t y = 0; y < to.height; ++y)
        for (int64_t x = 0; x < to.width; ++x)
          for (int64_t k = 0; k < to.channels; ++k) {
            T most = std::numeric_limits<T>::lowest();
            for (int64_t i = 0; i < high; ++i)
              for (int64_t j = 0; j < wide; ++j) {
                const int64_t row = rows.At(y, i), column = columns.At(x, j);
                if (!rows.Has(row) || !columns.Has(column)) continue;
                const T value = InputOf<T>(c, 0)[from.At(image, row, column) + k] +
                                InputOf<T>(c, 1)[(i * wide + j) * to.channels + k];
                most = std::max(most, value);
              }
            OutputOf<T>(c, 0)[to.At(image, y, x) + k] = most;
          }
    return absl::OkStatus();
  });
}

RIVULET_KERNEL("RGBToHSV", Device::kCpu, float, (PrepareColours<float, ToHsv<float>>));
RIVULET_KERNEL("RGBToHSV", Device::kCpu, double, (PrepareColours<double, ToHsv<double>>));
RIVULET_KERNEL("HSVToRGB", Device::kCpu, float, (PrepareColours<float, ToRgb<float>>));
RIVULET_KERNEL("HSVToRGB", Device::kCpu, double, (PrepareColours<double, ToRgb<double>>));
RIVULET_KERNEL("AdjustContrastv2", Device::kCpu, float, PrepareContrast);
RIVULET_KERNEL_OF_EVERY_SIZE("ExtractImagePatches", PreparePatches);

#define RIVULET_IMAGE_KERNELS(T)                                 \
  RIVULET_KERNEL("ResizeArea", Device::kCpu, T, PrepareArea<T>); \
  RIVULET_KERNEL("ScaleAndTranslate", Device::kCpu, T, PrepareScaleAndTranslate<T>);
RIVULET_IMAGE_KERNELS(uint8_t)
RIVULET_IMAGE_KERNELS(int32_t)
RIVULET_IMAGE_KERNELS(int64_t)
RIVULET_IMAGE_KERNELS(float)
RIVULET_IMAGE_KERNELS(double)
RIVULET_KERNEL("CropAndResize", Device::kCpu, uint8_t, PrepareCrop<uint8_t>);
RIVULET_KERNEL("CropAndResize", Device::kCpu, int32_t, PrepareCrop<int32_t>);
RIVULET_KERNEL("CropAndResize", Device::kCpu, float, PrepareCrop<float>);
RIVULET_KERNEL("CropAndResize", Device::kCpu, double, PrepareCrop<double>);
RIVULET_KERNEL("ImageProjectiveTransformV3", Device::kCpu, uint8_t, PrepareProjective<uint8_t>);
RIVULET_KERNEL("ImageProjectiveTransformV3", Device::kCpu, int32_t, PrepareProjective<int32_t>);
RIVULET_KERNEL("ImageProjectiveTransformV3", Device::kCpu, int64_t, PrepareProjective<int64_t>);
RIVULET_KERNEL("ImageProjectiveTransformV3", Device::kCpu, float, PrepareProjective<float>);
RIVULET_KERNEL("ImageProjectiveTransformV3", Device::kCpu, double, PrepareProjective<double>);
RIVULET_KERNEL("Dilation2D", Device::kCpu, float, PrepareDilation<float>);
RIVULET_KERNEL("Dilation2D", Device::kCpu, double, PrepareDilation<double>);
RIVULET_KERNEL("Dilation2D", Device::kCpu, int32_t, PrepareDilation<int32_t>);
RIVULET_KERNEL("Dilation2D", Device::kCpu, int64_t, PrepareDilation<int64_t>);

}  // namespace
}  // namespace rivulet
