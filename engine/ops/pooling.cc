// Maximum and average over windows, their gradients, and the gradients of those.
//
// Attributes of our own let pools of other frameworks be said: `_dilations` (four, as strides) and `_ceil_mode` (see
// window.h) of all of them, `_explicit_paddings` of those whose TensorFlow namesakes pad by SAME and VALID alone (so
// that a graph without it still loads there), and `_count_include_pad` of AvgPool: a mean is then over the window's
// part of the padded image. Padding is 0 in a mean and never wins a maximum. One-dimensional pools come by ExpandDims.
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

Status ArgmaxShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.attrs(), image));
  c.set_output(0, output);
  c.set_output(1, output);
  return absl::OkStatus();
}

Status MaxPoolGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(1), "orig_output"));
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(2), "grad"));
  c.set_output(0, image);
  return absl::OkStatus();
}

Status MaxPoolGradGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape image, c.WithRank(0, 4));
  RIVULET_RETURN_IF_ERROR(CheckPooled(c.attrs(), image, c.input(1), "orig_output"));
  RIVULET_ASSIGN_OR_RETURN(const Shape gradient, c.WithRank(2, 4));
  if (!Shape::Compatible(image, gradient))
    return InvalidArgument("grad is {}, but orig_input is {}", gradient.ToString(), image.ToString());
  RIVULET_ASSIGN_OR_RETURN(Shape output, PooledShape(c.attrs(), image));
  c.set_output(0, std::move(output));
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

// For a gradient of `node`, which declares explicit_paddings or does not.
AttrMap PoolWindowAttrs(const Node& node, bool declares_paddings) {
  AttrMap attrs;
  for (const char* name :
       {"ksize", "strides", "padding", "data_format", "_dilations", "_ceil_mode", "_count_include_pad"})
    if (node.HasAttr(name)) attrs.emplace(name, node.attrs().at(name));
  for (const char* name : {"explicit_paddings", "_explicit_paddings"}) {
    const auto* amounts = node.FindAttr<std::vector<int64_t>>(name);
    if (amounts != nullptr && !amounts->empty())
      attrs.emplace(declares_paddings ? "explicit_paddings" : "_explicit_paddings", *amounts);
  }
  return attrs;
}

// Also of MaxPoolWithArgmax, whose indices have no gradient.
Status MaxPoolGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MaxPoolGrad", {g.input(0), g.output(0), g.grad()}, PoolWindowAttrs(*g.node(), true)));
  return ops.status();
}

// Linear in grad; which elements win does not change near by.
Status MaxPoolGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(2, ops.Op("MaxPoolGradGrad", {g.input(0), g.input(1), g.grad()}, PoolWindowAttrs(*g.node(), false)));
  return ops.status();
}

Status MaxPoolGradGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(2, ops.Op("MaxPoolGrad", {g.input(0), g.input(1), g.grad()}, PoolWindowAttrs(*g.node(), true)));
  return ops.status();
}

Status AvgPoolGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("AvgPoolGrad", {ops.ShapeOf(g.input(0)), g.grad()}, PoolWindowAttrs(*g.node(), false)));
  return ops.status();
}

Status AvgPoolGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(1, ops.Op("AvgPool", {g.grad()}, PoolWindowAttrs(*g.node(), false)));
  return ops.status();
}

#define RIVULET_POOL_WINDOW \
  Attr("ksize: list(int) >= 4").Attr("strides: list(int) >= 4").Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
#define RIVULET_POOL_ATTRS RIVULET_POOL_WINDOW.Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
#define RIVULET_PADDED_POOL_ATTRS RIVULET_POOL_ATTRS.Attr("explicit_paddings: list(int) = []")

RIVULET_OP("MaxPool")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int8, uint8, int16, uint16, int32, int64} = DT_FLOAT")
    .RIVULET_PADDED_POOL_ATTRS.Shape(PoolShape)
    .Gradient(MaxPoolGradient)
    .Doc("The largest element of each window; padding never wins, NaN always does.");

RIVULET_OP("MaxPoolGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .RIVULET_PADDED_POOL_ATTRS.Attr("T: floattype = DT_FLOAT")
    .Shape(MaxPoolGradShape)
    .Gradient(MaxPoolGradGradient)
    .Doc("The gradient of MaxPool: each window's goes to its first largest element.");

RIVULET_OP("MaxPoolGradGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .RIVULET_POOL_ATTRS.Attr("T: floattype")
    .Shape(MaxPoolGradGradShape)
    .Gradient(MaxPoolGradGradGradient)
    .Doc(
        "The gradient of MaxPoolGrad by grad: for each window, the element of grad where the largest of orig_input "
        "is.");

RIVULET_OP("_MaxPoolReluGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .RIVULET_PADDED_POOL_ATTRS.Attr("T: floattype")
    .Shape(MaxPoolGradShape)
    .NotDifferentiable("passes make it after gradients have been built")
    .Doc(
        "ReluGrad(MaxPoolGrad(orig_input, orig_output, grad), orig_input) in one pass, bit for bit: the gradient "
        "before the Relu whose output orig_input is.");

RIVULET_OP("MaxPoolWithArgmax")
    .Input("input: T")
    .Output("output: T")
    .Output("argmax: Targmax")
    .RIVULET_POOL_WINDOW.Attr("Targmax: {int32, int64} = DT_INT64")
    .Attr("T: floattype")
    .Attr("include_batch_in_index: bool = false")
    .Shape(ArgmaxShape)
    .Gradient(MaxPoolGradient)
    .Doc(
        "MaxPool of NHWC images, and where each maximum is: (y · width + x) · channels + c, plus the image's offset in "
        "the batch with include_batch_in_index.");

RIVULET_OP("AvgPool")
    .Input("value: T")
    .Output("output: T")
    .RIVULET_POOL_ATTRS.Attr("T: floattype")
    .Shape(PoolShape)
    .Gradient(AvgPoolGradient)
    .Doc("The mean of each window; padding does not count, or with the attribute _count_include_pad counts as 0.");

RIVULET_OP("AvgPoolGrad")
    .Input("orig_input_shape: int32")
    .Input("grad: T")
    .Output("output: T")
    .RIVULET_POOL_ATTRS.Attr("T: floattype")
    .Shape(AvgPoolGradShape)
    .Gradient(AvgPoolGradGradient)
    .Doc("The gradient of AvgPool: each window's is shared equally by its elements.");

}  // namespace
}  // namespace rivulet
