// Maximum and average over windows.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/window.h"

namespace rivulet {
namespace {

StatusOr<Shape> PooledShape(const AttrMap& attrs, const Shape& image) {
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, PoolWindow(attrs, image));
  Shape output = image;
  output.set_dim(window.layout.height, window.height.output);
  output.set_dim(window.layout.width, window.width.output);
  return output;
}

Status CheckPooled(const AttrMap& attrs, const Shape& image, const Shape& pooled, std::string_view what) {
  RIVULET_ASSIGN_OR_RETURN(const Shape expected, PooledShape(attrs, image));
  if (!Shape::Compatible(pooled, expected))
    return InvalidArgument("{} is {}, but the pool of {} is {}", what, pooled.ToString(), image.ToString(),
                           expected.ToString());
  return absl::OkStatus();
}

Status PoolShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(Shape output, PooledShape(c.attrs(), image));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

Status MaxPoolGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(1), "orig_output"));
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(2), "grad"));
  c.set_output(0, image);
  return absl::OkStatus();
}

Status AvgPoolGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape image, ShapeFromInput(c, 0));
  if (!image.known_rank()) image = Shape({kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim});
  if (image.rank() != 4) return InvalidArgument("orig_input_shape must hold 4 sizes, not {}", image.rank());
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(1), "grad"));
  c.set_output(0, std::move(image));
  return absl::OkStatus();
}

AttrMap WindowAttrs(const Node& node) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "explicit_paddings", "data_format"})
    if (node.HasAttr(name)) attrs.emplace(name, node.attrs().at(name));
  return attrs;
}

Status MaxPoolGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MaxPoolGrad", {g.input(0), g.output(0), g.grad()}, WindowAttrs(*g.node())));
  return ops.status();
}

Status AvgPoolGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("AvgPoolGrad", {ops.ShapeOf(g.input(0)), g.grad()}, WindowAttrs(*g.node())));
  return ops.status();
}

Status AvgPoolGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(1, ops.Op("AvgPool", {g.grad()}, WindowAttrs(*g.node())));
  return ops.status();
}

RIVULET_OP("MaxPool")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: floattype = DT_FLOAT")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape(PoolShape)
    .Gradient(MaxPoolGradient)
    .Doc("The largest element of each window; padding never wins.");

RIVULET_OP("MaxPoolGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: floattype = DT_FLOAT")
    .Shape(MaxPoolGradShape)
    .NotDifferentiable("second derivatives of max pooling are not provided")
    .Doc("The gradient of MaxPool: each window's goes to its first largest element.");

RIVULET_OP("_MaxPoolReluGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: floattype")
    .Shape(MaxPoolGradShape)
    .NotDifferentiable("second derivatives of max pooling are not provided")
    .Doc(
        "ReluGrad(MaxPoolGrad(orig_input, orig_output, grad), orig_input): the gradient of MaxPool of a Relu's output "
        "by that Relu's input. An op of our own, which a pass makes.");

RIVULET_OP("AvgPool")
    .Input("value: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: floattype")
    .Shape(PoolShape)
    .Gradient(AvgPoolGradient)
    .Doc("The mean of each window; padding does not count.");

RIVULET_OP("AvgPoolGrad")
    .Input("orig_input_shape: int32")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: floattype")
    .Shape(AvgPoolGradShape)
    .Gradient(AvgPoolGradGradient)
    .Doc("The gradient of AvgPool: each window's is shared equally by its elements.");

}  // namespace
}  // namespace rivulet
