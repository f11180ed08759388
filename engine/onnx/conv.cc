// Convolutions over one, two or three spatial axes, and their transposes. ONNX lays images out as [batch, channels,
// spatial…] and filters as [out, in / groups, spatial…]; the engine's two-dimensional convolutions take the first as it
// is (NCHW) and the second as [height, width, in / groups, out]. One axis is two with a height of 1; three are sums of
// two-dimensional convolutions over the depth of the filter.
#include <algorithm>

#include "engine/onnx/operator.h"
#include "engine/onnx/window.h"

namespace rivulet::onnx {
namespace {

std::vector<int64_t> Four(int64_t height, int64_t width) { return {1, 1, height, width}; }

// [out, in, height, width] to [height, width, in, out].
Output Filter(const Builder& b, Output w) { return b.Transpose(w, {2, 3, 1, 0}); }
// The same of the node's filter, which the graph may store so; of one spatial axis as a height of 1.
Output FilterOf(const NodeContext& n, int spatial) {
  return spatial == 1 ? n.b().ExpandDims(n.Transposed(1, {2, 1, 0}), 0) : n.Transposed(1, {2, 3, 1, 0});
}

Output Conv2d(const Builder& b, Output x, Output filter, const Window& height, const Window& width) {
  return b.Op(
      "Conv2D", {x, filter},
      {{"strides", Four(height.stride, width.stride)},
       {"dilations", Four(height.dilation, width.dilation)},
       {"padding", std::string("EXPLICIT")},
       {"explicit_paddings", std::vector<int64_t>{0, 0, 0, 0, height.before, height.after, width.before, width.after}},
       {"data_format", std::string("NCHW")}});
}

Output WithBias(const Builder& b, Output y, Output bias) {
  return bias ? b.Op("BiasAdd", {y, bias}, {{"data_format", std::string("NCHW")}}) : y;
}

// x [batch, in, depth, height, width] as [batch, depth, in, height, width].
Output DepthFirst(const Builder& b, Output x) { return b.Transpose(x, {0, 2, 1, 3, 4}); }
// [batch, depth, c, h, w] as [batch · depth, c, h, w].
Output Merged(const Builder& b, Output x) { return b.Shaped(x, {b.Int(-1), b.Dim(x, 2), b.Dim(x, 3), b.Dim(x, 4)}); }
Output Parted(const Builder& b, Output y, Output depth) {
  return b.Shaped(y, {b.Int(-1), depth, b.Dim(y, 1), b.Dim(y, 2), b.Dim(y, 3)});
}

Output Conv3d(const Builder& b, Output x, Output w, const std::vector<Window>& windows) {
  const Window& depth = windows[0];
  Output rows = b.Pad(DepthFirst(b, x), {0, depth.before, 0, 0, 0}, {0, depth.after, 0, 0, 0});
  Output sum;
  for (int64_t k = 0; k < depth.kernel; ++k) {
    const int64_t first = k * depth.dilation;
    const Output plane = b.Slice(rows, 1, first, first + (depth.output - 1) * depth.stride + 1, depth.stride);
    const Output filter = Filter(b, b.At(w, 2, k));
    const Output part = Conv2d(b, Merged(b, plane), filter, windows[1], windows[2]);
    sum = sum ? b.Add(sum, part) : part;
  }
  return DepthFirst(b, Parted(b, sum, b.Int(depth.output)));
}

struct Layer {
  Output x, bias;
  int spatial = 0;
  int64_t groups = 1;
};

StatusOr<Layer> LayerOf(NodeContext& n) {
  Layer layer{n.input(0), n.optional_input(2)};
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  layer.spatial = rank - 2;
  layer.groups = n.Int("group", 1);
  if (layer.spatial < 1 || layer.spatial > 3) return Unimplemented("{} spatial axes", layer.spatial);
  if (filter.rank() != rank)
    return InvalidArgument("the filter {} does not fit the image {}", filter.ToString(), ShapeOf(layer.x).ToString());
  if (layer.groups < 1 || layer.groups > (1 << 20)) return InvalidArgument("{} groups, not 1 to 1048576", layer.groups);
  if (layer.spatial == 3 && filter.dim(2) > 1024)
    return ResourceExhausted("a filter with a depth of {}", filter.dim(2));
  const std::vector<int64_t> kernel = n.Ints("kernel_shape");
  if (n.has_attr("kernel_shape") && !std::ranges::equal(kernel, filter.dims().subspan(2)))
    return InvalidArgument("kernel_shape is not that of the filter {}", filter.ToString());
  return layer;
}

Status Conv(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(Layer layer, LayerOf(n));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  const int64_t channels = DimOf(layer.x, 1), wanted = filter.dim(1) * layer.groups;
  if (channels != kUnknownDim && channels != wanted)
    return InvalidArgument("the filter {} with {} groups takes {} channels, but the image {} has {}", filter.ToString(),
                           layer.groups, wanted, ShapeOf(layer.x).ToString(), channels);
  if (filter.dim(0) % layer.groups != 0)
    return InvalidArgument("{} outputs are not {} groups", filter.dim(0), layer.groups);
  std::vector<int64_t> kernel(filter.dims().begin() + 2, filter.dims().end());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Window> windows, WindowsOf(n, layer.x, kernel));
  Output y;
  if (layer.spatial == 1) {
    const Output image = b.ExpandDims(layer.x, 2);
    y = b.Squeeze(WithBias(b, Conv2d(b, image, FilterOf(n, 1), {}, windows[0]), layer.bias), 2);
  } else if (layer.spatial == 2) {
    y = WithBias(b, Conv2d(b, layer.x, FilterOf(n, 2), windows[0], windows[1]), layer.bias);
  } else {
    for (const Window& window : windows)
      if (window.output == kUnknownDim) return FailedPrecondition("the image's size must be known");
    y = Conv3d(b, layer.x, n.input(1), windows);
    if (layer.bias) y = b.Add(y, b.Reshape(layer.bias, {1, -1, 1, 1, 1}));
  }
  n.set_output(0, y);
  return n.status();
}
RIVULET_ONNX("Conv", Conv);

// One axis of a transposed convolution. Without padding its size is `full` = (input - 1) · stride + reach; `before` and
// the part beyond `output` are cut off, or filled with zeros if negative.
struct Stretched {
  int64_t input = 0, kernel = 1, stride = 1, dilation = 1, before = 0, output = 0;
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  int64_t full() const { return (input - 1) * stride + reach(); }
  int64_t after() const { return full() - before - output; }
};

StatusOr<std::vector<Stretched>> StretchedOf(NodeContext& n, Output x, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  const auto list = [&](std::string_view name, int64_t otherwise) {
    return n.has_attr(name) ? n.Ints(name) : std::vector<int64_t>(axes, otherwise);
  };
  const std::vector<int64_t> strides = list("strides", 1), dilations = list("dilations", 1),
                             extra = list("output_padding", 0);
  std::vector<int64_t> pads = n.has_attr("pads") ? n.Ints("pads") : std::vector<int64_t>(2 * axes, 0);
  std::vector<int64_t> sizes = n.Ints("output_shape");
  if (sizes.size() == axes + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);  // some writers give the whole shape
  if (strides.size() != axes || dilations.size() != axes || extra.size() != axes || pads.size() != 2 * axes ||
      (!sizes.empty() && sizes.size() != axes))
    return InvalidArgument("strides, dilations, pads, output_padding or output_shape are not for {} spatial axes",
                           axes);
  const std::string auto_pad = n.String("auto_pad", "NOTSET");
  std::vector<Stretched> all;
  for (size_t i = 0; i < axes; ++i) {
    constexpr int64_t limit = int64_t{1} << 24;
    for (int64_t value : {strides[i], dilations[i], kernel[i]})
      if (value < 1 || value > limit) return InvalidArgument("a stride, dilation or filter size of {}", value);
    for (int64_t value : {extra[i], pads[i], pads[i + axes]})
      if (value < 0 || value > (1 << 16)) return InvalidArgument("a padding of {}, not 0 to 65536", value);
    Stretched axis{DimOf(x, static_cast<int>(i) + 2), kernel[i], strides[i], dilations[i], pads[i], 0};
    if (axis.input < 1 || axis.input > limit)
      return FailedPrecondition("the image's sizes must be known and positive, not {}", ShapeOf(x).ToString());
    if (sizes.empty() && (auto_pad == "NOTSET" || auto_pad == "VALID")) {
      if (auto_pad == "VALID") axis.before = pads[i + axes] = 0;
      axis.output = axis.full() + extra[i] - axis.before - pads[i + axes];
    } else {
      axis.output = sizes.empty() ? axis.input * axis.stride : sizes[i];
      // Cut evenly; the odd one at the end with SAME_UPPER, at the beginning otherwise. A larger size adds zeros.
      const int64_t total = std::max<int64_t>(0, axis.full() + extra[i] - axis.output), half = total / 2;
      axis.before = auto_pad == "SAME_UPPER" ? half : total - half;
    }
    if (axis.output < 1 || axis.output > (int64_t{1} << 40))
      return InvalidArgument("the result has a size of {} along spatial axis {}", axis.output, i);
    all.push_back(axis);
  }
  return all;
}

// x cut, or zeros put to it, so that `axis` begins `before` later and ends after `output` elements.
Output Cropped(const Builder& b, Output x, int axis, const Stretched& window) {
  const int rank = ShapeOf(x).rank();
  const int64_t before = window.before, after = window.after();
  std::vector<int64_t> zeros_before(static_cast<size_t>(rank), 0), zeros_after = zeros_before;
  zeros_before[static_cast<size_t>(axis)] = std::max<int64_t>(0, -before);
  zeros_after[static_cast<size_t>(axis)] = std::max<int64_t>(0, -after);
  if (before > 0 || after > 0)
    x = b.Slice(x, axis, std::max<int64_t>(0, before), window.full() - std::max<int64_t>(0, after));
  return b.Pad(x, zeros_before, zeros_after);
}

// Spreads x over the filter [h, w, out / groups, in] completely, then cuts the result. The engine cuts it for ordinary
// padding.
Output Transposed2d(const Builder& b, Output x, Output filter, int64_t out, const Stretched& height,
                    const Stretched& width) {
  const auto direct = [](const Stretched& s) {
    return s.before >= 0 && s.before < s.reach() && -s.after() < s.stride && s.after() < s.reach();
  };
  const bool both = direct(height) && direct(width);
  const auto size = [&](const Stretched& s) { return b.Int(both ? s.output : s.full()); };
  const auto pad = [&](int64_t amount) { return both ? std::max<int64_t>(0, amount) : 0; };
  const Output sizes = b.Stack({b.Dim(x, 0), b.Int(out), size(height), size(width)}, 0);
  const Output y = b.Op("Conv2DBackpropInput", {b.Cast(sizes, DType::kInt32), filter, x},
                        {{"strides", Four(height.stride, width.stride)},
                         {"dilations", Four(height.dilation, width.dilation)},
                         {"padding", std::string("EXPLICIT")},
                         {"explicit_paddings", std::vector<int64_t>{0, 0, 0, 0, pad(height.before), pad(height.after()),
                                                                    pad(width.before), pad(width.after())}},
                         {"data_format", std::string("NCHW")}});
  return both ? y : Cropped(b, Cropped(b, y, 2, height), 3, width);
}

// Each plane of the filter spreads every plane of x; the results are `stride` planes apart, shifted by the plane's
// index.
Output Transposed3d(const Builder& b, Output x, Output w, int64_t out, const std::vector<Stretched>& windows) {
  const Stretched& depth = windows[0];
  const Output planes = Merged(b, DepthFirst(b, x));
  Output sum;
  for (int64_t k = 0; k < depth.kernel; ++k) {
    const Output filter = Filter(b, b.At(w, 2, k));
    Output part = Parted(b, Transposed2d(b, planes, filter, out, windows[1], windows[2]), b.Int(depth.input));
    if (depth.stride > 1) {
      const Output height = b.Dim(part, 3), width = b.Dim(part, 4);
      part = b.Pad(b.ExpandDims(part, 2), {0, 0, 0, 0, 0, 0}, {0, 0, depth.stride - 1, 0, 0, 0});
      part = b.Shaped(part, {b.Int(-1), b.Int(depth.input * depth.stride), b.Int(out), height, width});
      part = b.Slice(part, 1, 0, (depth.input - 1) * depth.stride + 1);
    }
    const int64_t shift = k * depth.dilation;
    part = b.Pad(part, {0, shift, 0, 0, 0}, {0, depth.reach() - 1 - shift, 0, 0, 0});
    sum = sum ? b.Add(sum, part) : part;
  }
  return DepthFirst(b, Cropped(b, sum, 1, depth));
}

Status ConvTranspose(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(Layer layer, LayerOf(n));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, n.KnownShape(1));
  std::vector<int64_t> kernel(filter.dims().begin() + 2, filter.dims().end());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Stretched> windows, StretchedOf(n, layer.x, kernel));
  int64_t out = 0;
  if (__builtin_mul_overflow(filter.dim(1), layer.groups, &out) || out > (int64_t{1} << 40))
    return InvalidArgument("{} groups of {} channels", layer.groups, filter.dim(1));
  if (DimOf(layer.x, 1) != kUnknownDim && DimOf(layer.x, 1) != filter.dim(0))
    return InvalidArgument("the filter {} takes {} channels, but the image {} has {}", filter.ToString(), filter.dim(0),
                           ShapeOf(layer.x).ToString(), DimOf(layer.x, 1));
  Output y;
  if (layer.spatial == 1) {
    const Stretched height{1, 1, 1, 1, 0, 1};
    y = Transposed2d(b, b.ExpandDims(layer.x, 2), FilterOf(n, 1), out, height, windows[0]);
    y = b.Squeeze(WithBias(b, y, layer.bias), 2);
  } else if (layer.spatial == 2) {
    y = WithBias(b, Transposed2d(b, layer.x, FilterOf(n, 2), out, windows[0], windows[1]), layer.bias);
  } else {
    y = Transposed3d(b, layer.x, n.input(1), out, windows);
    if (layer.bias) y = b.Add(y, b.Reshape(layer.bias, {1, -1, 1, 1, 1}));
  }
  n.set_output(0, y);
  return n.status();
}
RIVULET_ONNX("ConvTranspose", ConvTranspose);

}  // namespace
}  // namespace rivulet::onnx
