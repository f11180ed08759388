// Resize and Upsample. Every mode is separable and linear: along each axis the result is a matrix times the image,
// whose rows hold the weights of one position (nearest: an index).
#include <algorithm>
#include <cmath>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

struct Axis {
  int64_t input = 1, output = 1;
  double scale = 1;
  double start = 0, end = 1;  // region of interest, with tf_crop_and_resize
};

struct Resizing {
  std::string mode = "nearest", coordinates = "asymmetric", nearest = "floor";
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};

// The coordinate in the image of position `at` of the result.
double Original(const Resizing& r, const Axis& axis, int64_t at) {
  const double x = static_cast<double>(at), input = static_cast<double>(axis.input);
  const double width = axis.scale * input;  // which the output's size is, cut to an integer
  if (r.coordinates == "asymmetric") return x / axis.scale;
  if (r.coordinates == "align_corners") return width == 1 ? 0 : x * (input - 1) / (width - 1);
  if (r.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (r.coordinates == "tf_crop_and_resize")
    return axis.output > 1 ? axis.start * (input - 1) + x * (axis.end - axis.start) * (input - 1) / (width - 1)
                           : 0.5 * (axis.start + axis.end) * (input - 1);
  const double half = (x + 0.5) / axis.scale - 0.5;
  if (r.coordinates == "pytorch_half_pixel") return axis.output > 1 ? half : 0;
  if (r.coordinates == "half_pixel_symmetric") return input / 2 * (1 - static_cast<double>(axis.output) / width) + half;
  return half;
}

int64_t Nearest(const Resizing& r, const Axis& axis, double x) {
  const double at = r.nearest == "floor"               ? std::floor(x)
                    : r.nearest == "ceil"              ? std::ceil(x)
                    : r.nearest == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                       : std::ceil(x - 0.5);
  return static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(axis.input - 1)));
}

// Keys' cubic convolution kernel with the coefficient a, or the hat of linear interpolation.
double Kernel(const Resizing& r, double x) {
  x = std::abs(x);
  if (r.mode == "linear") return std::max(0.0, 1 - x);
  const double a = r.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// How the pixels of one axis are taken: for each tap, a pixel and a weight per position of the result.
struct Taps {
  std::vector<std::vector<int64_t>> pixels;
  std::vector<std::vector<float>> weights;
};

// Pixels beyond the edge count as the edge's, or not at all.
Taps TapsOf(const Resizing& r, const Axis& axis) {
  const double stretch = r.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = r.mode == "linear" ? 1 : 2;
  const auto first = static_cast<int64_t>(std::floor(-reach / stretch)) + 1, last = 1 - first;
  const auto count = static_cast<size_t>(last - first + 1);
  Taps taps{std::vector<std::vector<int64_t>>(count), std::vector<std::vector<float>>(count)};
  for (int64_t at = 0; at < axis.output; ++at) {
    const double x = Original(r, axis, at), base = std::ceil(x) - 1, ratio = x - base;  // in (0, 1]
    std::vector<double> weights;
    double sum = 0;
    for (int64_t i = first; i <= last; ++i) {
      const double pixel = base + static_cast<double>(i);
      const bool outside = pixel < 0 || pixel >= static_cast<double>(axis.input);
      taps.pixels[weights.size()].push_back(
          static_cast<int64_t>(std::clamp(pixel, 0.0, static_cast<double>(axis.input - 1))));
      weights.push_back(r.exclude_outside && outside ? 0 : Kernel(r, stretch * (static_cast<double>(i) - ratio)));
      sum += weights.back();
    }
    for (size_t tap = 0; tap < count; ++tap) taps.weights[tap].push_back(static_cast<float>(weights[tap] / sum));
  }
  return taps;
}

Output Along(const Builder& b, const Resizing& r, Output x, int index, const Axis& axis) {
  std::vector<int64_t> dims(static_cast<size_t>(ShapeOf(x).rank()), 1);
  dims[static_cast<size_t>(index)] = axis.output;
  const auto vector = [&](const std::vector<float>& values) {
    return b.Reshape(b.Const(Tensor::Of<float>({axis.output}, std::span<const float>(values))), dims);
  };
  const auto pixels = [&](const std::vector<int64_t>& list) {
    return b.Op("GatherV2", {x, b.Ints(list), b.Int32(index)});
  };
  Output y;
  if (r.mode == "nearest") {
    std::vector<int64_t> nearest;
    for (int64_t at = 0; at < axis.output; ++at) nearest.push_back(Nearest(r, axis, Original(r, axis, at)));
    y = pixels(nearest);
  } else {
    const Taps taps = TapsOf(r, axis);
    for (size_t tap = 0; tap < taps.pixels.size(); ++tap) {
      const Output part = b.Mul(pixels(taps.pixels[tap]), b.Cast(vector(taps.weights[tap]), TypeOf(x)));
      y = y ? b.Add(y, part) : part;
    }
  }
  if (r.coordinates != "tf_crop_and_resize") return y;
  std::vector<float> outside;
  for (int64_t at = 0; at < axis.output; ++at) {
    const double original = Original(r, axis, at);
    outside.push_back(original < 0 || original > static_cast<double>(axis.input - 1) ? 1 : 0);
  }
  const Output mask = vector(outside);
  return b.Select(b.Op("Greater", {mask, b.ScalarLike(mask, 0)}), b.ScalarLike(y, r.extrapolation), y);
}

// Scales, or the sizes wanted, of the axes named; every axis by default.
StatusOr<std::vector<std::pair<int, Axis>>> AxesOf(NodeContext& n, const Shape& shape) {
  std::vector<int64_t> axes = n.Ints("axes"), sizes;
  std::vector<Dimension> asked;
  std::vector<double> scales, roi;
  if (axes.empty())
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  const bool upsample = n.op_type() == "Upsample";
  const int scales_input = upsample || n.opset() < 11 ? 1 : 2;
  if (upsample && n.opset() < 9) {
    for (float scale : n.Floats("scales")) scales.push_back(scale);
  } else if (n.has_input(scales_input)) {
    RIVULET_ASSIGN_OR_RETURN(scales, n.NumberValues(scales_input));
  }
  if (scales.empty() && n.has_input(3)) {
    RIVULET_ASSIGN_OR_RETURN(asked, n.IntElements(3));
    for (const Dimension& size : asked) sizes.push_back(size.IsNumber() ? size.number() : kUnknownDim);
  }
  if (scales_input == 2 && n.has_input(1) && n.String("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    RIVULET_ASSIGN_OR_RETURN(roi, n.NumberValues(1));
    if (roi.size() != 2 * axes.size())
      return InvalidArgument("roi has {} numbers for {} axes", roi.size(), axes.size());
    for (double at : roi)
      if (!(std::abs(at) < 1e6)) return InvalidArgument("roi holds {}", at);
  }
  if ((scales.empty() ? sizes.size() : scales.size()) != axes.size())
    return InvalidArgument("{} scales and {} sizes are given for {} axes", scales.size(), sizes.size(), axes.size());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> own, n.Sizes(0));
  std::vector<std::pair<int, Axis>> all;
  const std::string policy = n.String("keep_aspect_ratio_policy", "stretch");
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int index, n.Axis(axes[i], shape.rank()));
    Axis axis;
    axis.input = shape.dim(index);
    if (axis.input == kUnknownDim && i < asked.size() && asked[i] == own[static_cast<size_t>(index)]) continue;
    const auto input = static_cast<double>(axis.input);
    if (axis.input == kUnknownDim && i < scales.size() && scales[i] == 1 && roi.empty()) continue;  // stays as it is
    if (axis.input == kUnknownDim)
      return FailedPrecondition("the size of axis {} must be known where it is resized", index);
    if (axis.input < 1) return InvalidArgument("the image {} is empty", shape.ToString());
    axis.scale = scales.empty() ? static_cast<double>(sizes[i]) / input : scales[i];
    if (!(axis.scale > 0 && axis.scale <= 65536)) return InvalidArgument("axis {} is scaled by {}", index, axis.scale);
    axis.output =
        scales.empty()
            ? sizes[i]
            : static_cast<int64_t>(std::floor(static_cast<float>(axis.input) * static_cast<float>(scales[i])));
    if (!roi.empty()) {
      axis.start = roi[i];
      axis.end = roi[i + axes.size()];
    }
    common = policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
    all.emplace_back(index, axis);
  }
  for (auto& [index, axis] : all) {
    if (scales.empty() && policy != "stretch") {
      axis.scale = common;
      axis.output = static_cast<int64_t>(std::floor(common * static_cast<double>(axis.input) + 0.5));
    }
    const bool wide = n.Flag("antialias", false) && axis.scale < 1.0 / 128;
    if (axis.output < 1 || axis.output > (1 << 20) || wide)
      return ResourceExhausted("axis {} from {} to {} elements", index, axis.input, axis.output);
  }
  return all;
}

Status Resize(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_RETURN_IF_ERROR(n.Rank(0).status());
  const Shape shape = ShapeOf(n.input(0));
  Resizing r;
  r.mode = n.String("mode", "nearest");
  if (r.mode == "bilinear") r.mode = "linear";
  if (n.op_type() == "Resize" && n.opset() >= 11) {
    r.coordinates = n.String("coordinate_transformation_mode", "half_pixel");
    r.nearest = n.String("nearest_mode", "round_prefer_floor");
    r.cubic = n.Float("cubic_coeff_a", -0.75);
    r.extrapolation = n.Float("extrapolation_value", 0);
    r.antialias = n.Flag("antialias", false);
    r.exclude_outside = n.Flag("exclude_outside", false);
  }
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic") return Unimplemented("mode '{}'", r.mode);
  RIVULET_ASSIGN_OR_RETURN(const auto axes, AxesOf(n, shape));
  const DType dtype = TypeOf(n.input(0));
  Output y = r.mode == "nearest" || IsFloating(dtype) ? n.input(0) : b.Cast(n.input(0), DType::kFloat32);
  for (const auto& [index, axis] : axes)
    if (axis.output != axis.input || axis.scale != 1 || r.coordinates == "tf_crop_and_resize")
      y = Along(b, r, y, index, axis);
  n.set_output(0, b.Op("Identity", {b.Cast(y, dtype)}));
  return n.status();
}
RIVULET_ONNX("Resize", Resize);
RIVULET_ONNX("Upsample", Resize);

}  // namespace
}  // namespace rivulet::onnx
