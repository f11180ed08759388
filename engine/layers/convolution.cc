#include "engine/layers/convolution.h"

namespace rivulet {
namespace {

int SpatialAxis(const WindowOptions& options) { return options.data_format == "NCHW" ? 2 : 1; }

// One value per spatial axis, among those of batch and channels, which are 1.
std::vector<int64_t> OverImage(const WindowOptions& options, std::vector<int64_t> values) {
  if (values.empty()) values = {1, 1};
  std::vector<int64_t> list(4, 1);
  for (size_t i = 0; i < 2; ++i) list[static_cast<size_t>(SpatialAxis(options)) + i] = values[i];
  return list;
}

Status CheckLengths(const WindowOptions& options, size_t axes) {
  for (const size_t length : {options.strides.size(), options.dilations.size(), options.paddings.size()})
    if (length != 0 && length != axes)
      return InvalidArgument("a window over {} spatial axes has {} strides, {} dilations and {} paddings", axes,
                             options.strides.size(), options.dilations.size(), options.paddings.size());
  if (!options.paddings.empty() && options.padding != "EXPLICIT")
    return InvalidArgument("paddings are given, but padding is {}; make it EXPLICIT", options.padding);
  return absl::OkStatus();
}

AttrMap WindowAttrs(const WindowOptions& options) {
  AttrMap attrs = {{"strides", OverImage(options, options.strides)},
                   {"dilations", OverImage(options, options.dilations)},
                   {"padding", options.padding},
                   {"data_format", options.data_format}};
  if (options.padding == "EXPLICIT") {
    std::vector<int64_t> amounts(8, 0);
    for (size_t i = 0; i < options.paddings.size(); ++i) {
      const size_t at = 2 * (static_cast<size_t>(SpatialAxis(options)) + i);
      amounts[at] = options.paddings[i].first;
      amounts[at + 1] = options.paddings[i].second;
    }
    attrs["explicit_paddings"] = std::move(amounts);
  }
  return attrs;
}

// The options of one spatial axis as those of two, the first of size 1.
// Convolutions over sequences are those over images of one row: no kernels, gradients or layouts of their own.
WindowOptions InTwoDimensions(WindowOptions options) {
  if (!options.strides.empty()) options.strides.insert(options.strides.begin(), 1);
  if (!options.dilations.empty()) options.dilations.insert(options.dilations.begin(), 1);
  if (!options.paddings.empty()) options.paddings.insert(options.paddings.begin(), {0, 0});
  return options;
}

Output Expand(const Scope& scope, Output x, int axis) {
  return scope.Op("ExpandDims", {x, scope.Const(Tensor::Scalar<int32_t>(axis))});
}
Output Squeeze(const Scope& scope, Output x, int axis) {
  return scope.Op("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{axis}}});
}

template <typename List>
auto At(const List& list, size_t i, typename List::value_type otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

// The sizes of the transposed convolution's result along its two spatial axes.
// Several sizes of a result give the same input size when a convolution strides over them, so the way back must be told
// which is meant; without output_padding it is the smallest, and with SAME, whose sizes are rounded up, the largest.
// Sizes are bounded by 2^20 before they are multiplied, so no product here overflows.
StatusOr<std::vector<int64_t>> TransposedSizes(const Output& x, const Output& filter, const TransposeOptions& options) {
  const WindowOptions& window = options.window;
  if (!options.output_sizes.empty()) {
    if (options.output_sizes.size() != 2 || !options.output_padding.empty())
      return InvalidArgument("a transposed convolution takes either {} output_sizes or output_padding, not {} and {}",
                             2, options.output_sizes.size(), options.output_padding.size());
    return options.output_sizes;
  }
  if (!x.shape().known_rank() || x.shape().rank() != 4 || !filter.shape().known_rank() || filter.shape().rank() != 4)
    return InvalidArgument("a transposed convolution of {} with {} needs four axes of both", x.shape().ToString(),
                           filter.shape().ToString());
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t in = x.shape().dim(SpatialAxis(window) + static_cast<int>(i));
    const int64_t taps = filter.shape().dim(static_cast<int>(i));
    const int64_t stride = At(window.strides, i, 1), dilation = At(window.dilations, i, 1);
    const int64_t more = At(options.output_padding, i, 0);
    constexpr int64_t kMost = int64_t{1} << 20;
    if (in == kUnknownDim || taps == kUnknownDim)
      return InvalidArgument("the spatial sizes of {} and {} must be known; give output_sizes", x.shape().ToString(),
                             filter.shape().ToString());
    if (stride < 1 || stride > kMost || dilation < 1 || dilation > kMost || taps > kMost || in > kMost || more < 0 ||
        more > kMost)
      return InvalidArgument("stride {}, dilation {} or output_padding {} is outside [1, 2^20]", stride, dilation,
                             more);
    if (window.padding == "SAME") {
      sizes.push_back(in * stride + more);
      continue;
    }
    const auto [before, after] = At(window.paddings, i, {0, 0});
    sizes.push_back((in - 1) * stride + (taps - 1) * dilation + 1 - before - after + more);
  }
  return sizes;
}

}  // namespace

Output Conv2D(const Scope& scope, Output x, Output filter, const WindowOptions& options, std::string_view name) {
  if (Status status = CheckLengths(options, 2); !status.ok()) scope.Fail(std::move(status));
  return scope.Op("Conv2D", {x, filter}, WindowAttrs(options), name);
}

Output Conv1D(const Scope& scope, Output x, Output filter, const WindowOptions& options, std::string_view name) {
  if (Status status = CheckLengths(options, 1); !status.ok()) scope.Fail(std::move(status));
  const Scope inner = scope.SubScope(name);
  const int axis = SpatialAxis(options);
  const Output image = Expand(inner, x, axis);
  return Squeeze(inner, Conv2D(inner, image, Expand(inner, filter, 0), InTwoDimensions(options)), axis);
}

Output Conv2DTranspose(const Scope& scope, Output x, Output filter, const TransposeOptions& options,
                       std::string_view name) {
  if (Status status = CheckLengths(options.window, 2); !status.ok()) scope.Fail(std::move(status));
  if (!scope.status().ok()) return {};
  const StatusOr<std::vector<int64_t>> sizes = TransposedSizes(x, filter, options);
  if (!sizes.ok()) {
    scope.Fail(sizes.status());
    return {};
  }
  std::vector<int32_t> image;
  for (int64_t size : *sizes) {
    if (size < 1 || size > std::numeric_limits<int32_t>::max()) {
      scope.Fail(InvalidArgument("a transposed convolution of {} with {} would have a size of {}", x.shape().ToString(),
                                 filter.shape().ToString(), size));
      return {};
    }
    image.push_back(static_cast<int32_t>(size));
  }
  const Scope inner = scope.SubScope(name);
  const Output input_sizes = inner.Const(Tensor::Of<int32_t>({2}, std::span<const int32_t>(image)), "sizes");
  AttrMap attrs = WindowAttrs(options.window);
  if (options.groups != 1) attrs["_groups"] = options.groups;
  return inner.Op("Conv2DBackpropInput", {input_sizes, filter, x}, std::move(attrs), "conv_transpose");
}

}  // namespace rivulet
