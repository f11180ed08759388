// Two-dimensional convolution, and its gradients by image and by filter.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/window.h"

namespace rivulet {
namespace {

Shape ImageShape(const ImageLayout& layout, int64_t batch, int64_t height, int64_t width, int64_t channels) {
  Shape shape({0, 0, 0, 0});
  shape.set_dim(layout.batch, batch);
  shape.set_dim(layout.height, height);
  shape.set_dim(layout.width, width);
  shape.set_dim(layout.channels, channels);
  return shape;
}

// The shape of the convolution of `image` with `filter`, and checks on the way.
StatusOr<Shape> ConvolvedShape(const AttrMap& attrs, const Shape& image, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, ConvolutionWindow(attrs, image, filter));
  const int64_t channels = image.dim(window.layout.channels), filter_channels = filter.dim(2);
  if (channels != kUnknownDim && filter_channels != kUnknownDim && channels != filter_channels) {
    if (filter_channels > 0 && channels % filter_channels == 0)
      return Unimplemented("the image {} has {} channels and the filter {} takes {}: grouped convolutions",
                           image.ToString(), channels, filter.ToString(), filter_channels);
    return InvalidArgument("the image {} has {} channels, but the filter {} takes {}", image.ToString(), channels,
                           filter.ToString(), filter_channels);
  }
  return ImageShape(window.layout, image.dim(window.layout.batch), window.height.output, window.width.output,
                    filter.dim(3));
}

Status Conv2DShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  RIVULET_ASSIGN_OR_RETURN(Shape output, ConvolvedShape(c.attrs(), image, filter));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

Status CheckBackprop(const InferenceContext& c, const Shape& image, const Shape& filter) {
  RIVULET_ASSIGN_OR_RETURN(const Shape backprop, c.WithRank(2, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape expected, ConvolvedShape(c.attrs(), image, filter));
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

Status BackpropInputShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, SizesOfRank4(c, 0));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  RIVULET_RETURN_IF_ERROR(CheckBackprop(c, image, filter));
  c.set_output(0, image);
  return absl::OkStatus();
}

Status BackpropFilterShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape filter, SizesOfRank4(c, 1));
  RIVULET_RETURN_IF_ERROR(CheckBackprop(c, image, filter));
  c.set_output(0, filter);
  return absl::OkStatus();
}

AttrMap WindowAttrs(const Node& node) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations"})
    attrs.emplace(name, node.attrs().at(name));
  return attrs;
}

Status Conv2DGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output image = g.input(0), filter = g.input(1);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(0, ops.Op("Conv2DBackpropInput", {ops.ShapeOf(image), filter, g.grad()}, attrs));
  g.set_input_grad(1, ops.Op("Conv2DBackpropFilter", {image, ops.ShapeOf(filter), g.grad()}, attrs));
  return ops.status();
}

// The convolution is bilinear, so each of its gradients is linear in what the other two are.
Status BackpropInputGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output filter = g.input(1), out_backprop = g.input(2);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(1, ops.Op("Conv2DBackpropFilter", {g.grad(), ops.ShapeOf(filter), out_backprop}, attrs));
  g.set_input_grad(2, ops.Op("Conv2D", {g.grad(), filter}, attrs));
  return ops.status();
}

Status BackpropFilterGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output image = g.input(0), out_backprop = g.input(2);
  const AttrMap attrs = WindowAttrs(*g.node());
  g.set_input_grad(0, ops.Op("Conv2DBackpropInput", {ops.ShapeOf(image), g.grad(), out_backprop}, attrs));
  g.set_input_grad(2, ops.Op("Conv2D", {image, g.grad()}, attrs));
  return ops.status();
}

#define RIVULET_CONVOLUTION_ATTRS                     \
  Attr("T: floattype")                                \
      .Attr("strides: list(int)")                     \
      .Attr("use_cudnn_on_gpu: bool = true")          \
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}") \
      .Attr("explicit_paddings: list(int) = []")      \
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'") \
      .Attr("dilations: list(int) = [1, 1, 1, 1]")

RIVULET_OP("Conv2D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .RIVULET_CONVOLUTION_ATTRS.Shape(Conv2DShape)
    .Gradient(Conv2DGradient)
    .Doc(
        "Convolution (cross-correlation) of images [batch, height, width, in] with a filter [height, width, in, out].");

RIVULET_OP("Conv2DBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .RIVULET_CONVOLUTION_ATTRS.Shape(BackpropInputShape)
    .Gradient(BackpropInputGradient)
    .Doc("The gradient of Conv2D with respect to its images, whose shape is input_sizes.");

RIVULET_OP("Conv2DBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .RIVULET_CONVOLUTION_ATTRS.Shape(BackpropFilterShape)
    .Gradient(BackpropFilterGradient)
    .Doc("The gradient of Conv2D with respect to its filter, whose shape is filter_sizes.");

}  // namespace
}  // namespace rivulet
