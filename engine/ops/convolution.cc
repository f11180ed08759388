// Two-dimensional convolutions, full, grouped and depthwise, and their gradients by image and by filter.
#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/window.h"

namespace rivulet {
namespace {

// The three ops that are each other's gradients.
struct Family {
  const char* forward;
  const char* backprop_input;
  const char* backprop_filter;
  bool depthwise;  // the filter is [height, width, in, multiplier] instead of [height, width, in / groups, out]
};
constexpr Family kFull = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", false};
constexpr Family kDepthwise = {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",
                               "DepthwiseConv2dNativeBackpropFilter", true};

Shape ImageShape(const ImageLayout& layout, int64_t batch, int64_t height, int64_t width, int64_t channels) {
  Shape shape({0, 0, 0, 0});
  shape.set_dim(layout.batch, batch);
  shape.set_dim(layout.height, height);
  shape.set_dim(layout.width, width);
  shape.set_dim(layout.channels, channels);
  return shape;
}

// Channels of the output, and checks of the filter against the image.
StatusOr<int64_t> OutputChannels(const Family& family, int64_t channels, const Shape& image, const Shape& filter) {
  const int64_t filter_channels = filter.dim(2);
  if (family.depthwise) {
    if (channels != kUnknownDim && filter_channels != kUnknownDim && channels != filter_channels)
      return InvalidArgument("the image {} has {} channels, but the depthwise filter {} is for {}", image.ToString(),
                             channels, filter.ToString(), filter_channels);
    return MultiplyDims(channels == kUnknownDim ? filter_channels : channels, filter.dim(3));
  }
  if (channels == kUnknownDim || filter_channels == kUnknownDim || channels == filter_channels) return filter.dim(3);
  if (filter_channels <= 0 || channels % filter_channels != 0)
    return InvalidArgument("the image {} has {} channels, but the filter {} takes {} (or a divisor, in groups)",
                           image.ToString(), channels, filter.ToString(), filter_channels);
  const int64_t groups = channels / filter_channels;
  if (filter.dim(3) != kUnknownDim && groups > 0 && filter.dim(3) % groups != 0)
    return InvalidArgument(
        "{} channels of the image {} in {} groups: the filter {} must give a multiple of {} channels", channels,
        image.ToString(), groups, filter.ToString(), groups);
  return filter.dim(3);
}

StatusOr<Shape> ConvolvedShape(const Family& family, const AttrMap& attrs, const Shape& image, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, ConvolutionWindow(attrs, image, filter));
  RIVULET_ASSIGN_OR_RETURN(const int64_t channels,
                           OutputChannels(family, image.dim(window.layout.channels), image, filter));
  return ImageShape(window.layout, image.dim(window.layout.batch), window.height.output, window.width.output, channels);
}

StatusOr<Shape> ForwardOutput(const Family& family, const InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  return ConvolvedShape(family, c.attrs(), image, filter);
}

template <const Family& kFamily>
Status ForwardShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape output, ForwardOutput(kFamily, c));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

Status CheckBackprop(const Family& family, const InferenceContext& c, const Shape& image, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const Shape backprop, c.WithRank(2, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape expected, ConvolvedShape(family, c.attrs(), image, filter));
  if (!Shape::Compatible(backprop, expected))
    return InvalidArgument("out_backprop is {}, but the convolution of {} with {} is {}", backprop.ToString(),
                           image.ToString(), filter.ToString(), expected.ToString());
  return absl::OkStatus();
}

StatusOr<Shape> SizesOfRank4(const InferenceContext& c, int i) {
  RIVULET_ASSIGN_OR_RETURN(const Shape sizes, ShapeFromInput(c, i));
  if (!sizes.known_rank()) return Shape({kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});
  if (sizes.rank() != 4) return InvalidArgument("input {} must hold 4 sizes, not {}", i, sizes.rank());
  return sizes;
}

// The image's sizes: all four, or height and width alone, the rest then following from the other inputs and, where the
// filter is in groups, the attribute _groups.
StatusOr<Shape> ImageSizes(const Family& family, const InferenceContext& c, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const Shape sizes, ShapeFromInput(c, 0));
  if (family.depthwise || !sizes.known_rank() || sizes.rank() != 2) return SizesOfRank4(c, 0);
  RIVULET_ASSIGN_OR_RETURN(const Shape backprop, c.WithRank(2, 4));
  RIVULET_ASSIGN_OR_RETURN(const ImageLayout layout, ImageLayout::Parse(c.attr<std::string>("data_format")));
  const auto groups = c.attrs().find("_groups");
  const bool given = groups != c.attrs().end() && std::holds_alternative<int64_t>(groups->second);
  RIVULET_ASSIGN_OR_RETURN(const int64_t channels,
                           MultiplyDims(filter.dim(2), given ? std::get<int64_t>(groups->second) : 1));
  return ImageShape(layout, backprop.dim(0), sizes.dim(0), sizes.dim(1), channels);
}

template <const Family& kFamily>
Status BackpropInputShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape image, ImageSizes(kFamily, c, filter));
  RIVULET_RETURN_IF_ERROR(CheckBackprop(kFamily, c, image, filter));
  c.set_output(0, image);
  return absl::OkStatus();
}

template <const Family& kFamily>
Status BackpropFilterShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, SizesOfRank4(c, 1));
  RIVULET_RETURN_IF_ERROR(CheckBackprop(kFamily, c, image, filter));
  c.set_output(0, filter);
  return absl::OkStatus();
}

AttrMap WindowAttrs(const Node& node) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"})
    attrs.emplace(name, node.attrs().at(name));
  return attrs;
}

template <const Family& kFamily>
Status ForwardGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output image = g.input(0), filter = g.input(1);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(0, ops.Op(kFamily.backprop_input, {ops.ShapeOf(image), filter, g.grad()}, attrs));
  g.set_input_grad(1, ops.Op(kFamily.backprop_filter, {image, ops.ShapeOf(filter), g.grad()}, attrs));
  return ops.status();
}

// The convolution is bilinear, so each of its gradients is linear in the two other tensors.
template <const Family& kFamily>
Status BackpropInputGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output filter = g.input(1), out_backprop = g.input(2);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(1, ops.Op(kFamily.backprop_filter, {g.grad(), ops.ShapeOf(filter), out_backprop}, attrs));
  g.set_input_grad(2, ops.Op(kFamily.forward, {g.grad(), filter}, attrs));
  return ops.status();
}

template <const Family& kFamily>
Status BackpropFilterGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output image = g.input(0), out_backprop = g.input(2);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(0, ops.Op(kFamily.backprop_input, {ops.ShapeOf(image), g.grad(), out_backprop}, attrs));
  g.set_input_grad(2, ops.Op(kFamily.forward, {image, g.grad()}, attrs));
  return ops.status();
}

StatusOr<Shape> FusedOutput(const InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape output, ForwardOutput(kFull, c));
  RIVULET_ASSIGN_OR_RETURN(const FusedOps fused, FusedOpsOf(c.attrs()));
  if (c.num_inputs() != 2 + (fused.bias ? 1 : 0))
    return InvalidArgument("fused_ops ask for {} args, not {}", fused.bias ? 1 : 0, c.num_inputs() - 2);
  if (!fused.bias) return output;
  RIVULET_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(2, 1));
  const int64_t channels = c.input(1).known_rank() ? c.input(1).dim(3) : kUnknownDim;
  if (bias.dim(0) != kUnknownDim && channels != kUnknownDim && bias.dim(0) != channels)
    return InvalidArgument("the bias {} does not fit {} channels", bias.ToString(), channels);
  return output;
}

Status FusedShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape output, FusedOutput(c));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

// A window of 2×2 at stride 2, VALID, over FusedOutput's NHWC images.
Status FusedPooledShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape pooled, FusedOutput(c));
  for (const auto& [axis, name] : {std::pair(1, "height"), std::pair(2, "width")}) {
    RIVULET_ASSIGN_OR_RETURN(const WindowAxis window, MakeWindowAxis(name, pooled.dim(axis), 2, 2, 1, "VALID"));
    pooled.set_dim(axis, window.output);
  }
  c.set_output(0, std::move(pooled));
  return absl::OkStatus();
}

// [examples, height, width, channels] as one image of all examples' channels, one example's after another's.
Output SideBySide(ExampleOps& ops, Output images) {
  const Shape& shape = images.shape();
  const Output moved = ops.Op("Transpose", {images, ops.Ints({1, 2, 0, 3})});
  return ops.Reshape(moved, {1, shape.dim(1), shape.dim(2), shape.dim(0) * shape.dim(3)});
}

// The image patch of each output position, [examples, height, width, filter's height * width * channels]: an example's
// filter gradient is a product of these and the gradients of its positions. Null: explicit padding, which
// ExtractImagePatches lacks, or more patches than fit into memory at once.
Output PatchesOf(ExampleOps& ops, const Node& node, Output images, const Shape& filter) {
  constexpr double kMostNumbers = 32e6;  // 128 MB
  const std::string padding = node.attr<std::string>("padding");
  const Shape& back = node.input(2).shape();
  const double numbers = static_cast<double>(back.dim(0) * back.dim(1) * back.dim(2)) *
                         static_cast<double>(filter.elements() / filter.dim(3));
  if (padding == "EXPLICIT" || numbers > kMostNumbers) return {};
  return ops.Op("ExtractImagePatches", {images},
                {{"ksizes", std::vector<int64_t>{1, filter.dim(0), filter.dim(1), 1}},
                 {"strides", node.attr<std::vector<int64_t>>("strides")},
                 {"rates", node.attr<std::vector<int64_t>>("dilations")},
                 {"padding", padding}});
}

// The filter's gradient by each example: a product of patches, or a convolution in groups, a group for each example.
template <const Family& kFamily>
ExampleSumResult FilterExamples(ExampleSumContext& c) {
  ExampleOps& ops = c.ops();
  const Output images = c.input(0), backprop = c.input(2);
  auto at = c.axis(0);
  const auto back_at = c.axis(2);
  if (!at && ops.layouts().Of(images).none()) at = back_at;
  if (!at || !back_at || !(*at == ExampleAxis{}) || !(*back_at == *at) ||
      c.node().attr<std::string>("data_format") != "NHWC") {
    return c.Refuse();
  }
  const Shape filter = c.sum().shape();
  const int64_t examples = ops.examples();
  const bool grouped = !kFamily.depthwise && images.shape().dim(3) != filter.dim(2);
  const AttrMap attrs = WindowAttrs(c.node());
  const auto of_example = [&ops, c, images, backprop, attrs](int64_t example) {
    const auto slice = [&](Output x) {
      const Shape& s = x.shape();
      return ops.Op("Slice", {x, ops.Ints({example, 0, 0, 0}), ops.Ints({1, s.dim(1), s.dim(2), s.dim(3)})});
    };
    return ops.Op(kFamily.backprop_filter, {slice(images), c.input(1), slice(backprop)}, attrs);
  };
  const auto each = [&ops, images, backprop, attrs, filter, examples, of_example, grouped] {
    if (grouped) {  // groups within groups: one example after the other
      std::vector<Output> all;
      for (int64_t i = 0; i < examples; ++i) all.push_back(ops.Reshape(of_example(i), {1, filter.elements()}));
      all.push_back(ops.scope().Const(Tensor::Scalar<int32_t>(0)));
      return ops.Op("ConcatV2", all);
    }
    const int64_t rows = filter.dim(0) * filter.dim(1), in = filter.dim(2), out = filter.dim(3);
    const Output sizes = kFamily.depthwise ? ops.Ints({filter.dim(0), filter.dim(1), examples * in, out})
                                           : ops.Ints({filter.dim(0), filter.dim(1), in, examples * out});
    const Output all =
        ops.Op(kFamily.backprop_filter, {SideBySide(ops, images), sizes, SideBySide(ops, backprop)}, attrs);
    if (kFamily.depthwise) {
      const Output apart = ops.Reshape(all, {rows, examples, in * out});
      return ops.Reshape(ops.Op("Transpose", {apart, ops.Ints({1, 0, 2})}), {examples, filter.elements()});
    }
    const Output apart = ops.Reshape(all, {rows * in, examples, out});
    return ops.Reshape(ops.Op("Transpose", {apart, ops.Ints({1, 0, 2})}), {examples, filter.elements()});
  };
  const Output patches = kFamily.depthwise || grouped ? Output{} : PatchesOf(ops, c.node(), images, filter);
  if (patches) {
    const int64_t positions = backprop.shape().dim(1) * backprop.shape().dim(2);
    return OuterSum(ops, filter,
                    {ops.Reshape(patches, {examples, positions, filter.elements() / filter.dim(3)}),
                     ops.Reshape(backprop, {examples, positions, filter.dim(3)})},
                    [c, at](Output factors) { return c.With(2, c.ops().Weigh(c.input(2), *at, factors)); });
  }
  const double cost = static_cast<double>(backprop.shape().elements()) * static_cast<double>(filter.elements()) /
                      static_cast<double>(filter.dim(3));
  return LargeSum(ops, filter, cost, each, of_example,
                  [c, at](Output factors) { return c.With(2, c.ops().Weigh(c.input(2), *at, factors)); });
}
RIVULET_EXAMPLE_SUM("Conv2DBackpropFilter", FilterExamples<kFull>);
RIVULET_EXAMPLE_SUM("DepthwiseConv2dNativeBackpropFilter", FilterExamples<kDepthwise>);

#define RIVULET_CONVOLUTION_WINDOW                    \
  Attr("strides: list(int)")                          \
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}") \
      .Attr("explicit_paddings: list(int) = []")      \
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'") \
      .Attr("dilations: list(int) = [1, 1, 1, 1]")
#define RIVULET_CONVOLUTION_ATTRS RIVULET_CONVOLUTION_WINDOW.Attr("use_cudnn_on_gpu: bool = true")

RIVULET_OP("Conv2D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_ATTRS.Shape(ForwardShape<kFull>)
    .Gradient(ForwardGradient<kFull>)
    .Doc(
        "Convolution (cross-correlation) of images [batch, height, width, in] with a filter [height, width, in / "
        "groups, out]. The ratio of image to filter channels is the number of groups.");

RIVULET_OP("Conv2DBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_ATTRS.Shape(BackpropInputShape<kFull>)
    .Gradient(BackpropInputGradient<kFull>)
    .Doc(
        "The gradient of Conv2D with respect to its images, also the transposed convolution. The images' shape is "
        "input_sizes: four sizes, or height and width, with the attribute _groups for a filter in groups.");

RIVULET_OP("Conv2DBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_ATTRS.Shape(BackpropFilterShape<kFull>)
    .Gradient(BackpropFilterGradient<kFull>)
    .Doc("The gradient of Conv2D with respect to its filter, whose shape is filter_sizes.");

RIVULET_OP("DepthwiseConv2dNative")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_WINDOW.Shape(ForwardShape<kDepthwise>)
    .Gradient(ForwardGradient<kDepthwise>)
    .Doc(
        "Separate convolution of each channel with a filter [height, width, in, multiplier]; output channel c · "
        "multiplier + m is channel c under the filter's (c, m).");

RIVULET_OP("DepthwiseConv2dNativeBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_WINDOW.Shape(BackpropInputShape<kDepthwise>)
    .Gradient(BackpropInputGradient<kDepthwise>)
    .Doc("The gradient of DepthwiseConv2dNative with respect to its images, whose shape is input_sizes.");

RIVULET_OP("DepthwiseConv2dNativeBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .RIVULET_CONVOLUTION_WINDOW.Shape(BackpropFilterShape<kDepthwise>)
    .Gradient(BackpropFilterGradient<kDepthwise>)
    .Doc("The gradient of DepthwiseConv2dNative with respect to its filter, whose shape is filter_sizes.");

RIVULET_OP("_FusedConv2D")
    .Input("input: T")
    .Input("filter: T")
    .Input("args: num_args * T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("num_args: int >= 0")
    .RIVULET_CONVOLUTION_ATTRS.Attr("fused_ops: list(string) = []")
    .Shape(FusedShape)
    .NotDifferentiable("passes make it after gradients have been built")
    .Doc(
        "Conv2D, then BiasAdd of args[0], then an activation, as fused_ops list them: any of ['BiasAdd'], ['Relu'], "
        "['Relu6'], ['BiasAdd', 'Relu'], ['BiasAdd', 'Relu6']. The bias is added to the finished sums, so the result "
        "equals the ops in sequence bit for bit.");

RIVULET_OP("_FusedConv2DMaxPool")
    .Input("input: T")
    .Input("filter: T")
    .Input("args: num_args * T")
    .Output("output: T")
    .Attr("T: {float}")
    .Attr("num_args: int >= 0")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("fused_ops: list(string) = []")
    .Shape(FusedPooledShape)
    .NotDifferentiable("passes make it after gradients have been built")
    .Doc(
        "_FusedConv2D, then MaxPool of its output with ksize and strides of 2 on both axes and no padding. The result "
        "equals the ops in sequence bit for bit. The convolution's output need not be in memory.");

}  // namespace
}  // namespace rivulet
