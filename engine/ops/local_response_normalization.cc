// Local response normalisation (Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional
// Neural Networks", 2012, section 3.3).
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/window.h"

namespace rivulet {
namespace {

Status CheckAttrs(const InferenceContext& c) {
  if (c.attr<int64_t>("depth_radius") < 0)
    return InvalidArgument("depth_radius is {}, below 0", c.attr<int64_t>("depth_radius"));
  return absl::OkStatus();
}

Status LrnShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckAttrs(c));
  RIVULET_ASSIGN_OR_RETURN(Shape image, c.WithRank(0, 4));
  c.set_output(0, std::move(image));
  return absl::OkStatus();
}

Status LrnGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckAttrs(c));
  RIVULET_ASSIGN_OR_RETURN(const Shape gradient, c.WithRank(0, 4));
  return AllSameShape(c);
}

Status LrnGradient(GradientContext& g) {
  GradientOps ops(g);
  AttrMap attrs;
  for (const char* name : {"depth_radius", "bias", "alpha", "beta", "_data_format"})
    if (g.node()->HasAttr(name)) attrs.emplace(name, g.node()->attrs().at(name));
  g.set_input_grad(0, ops.Op("LRNGrad", {g.grad(), g.input(0), g.output(0)}, attrs));
  return ops.status();
}

#define RIVULET_LRN_ATTRS         \
  Attr("depth_radius: int = 5")   \
      .Attr("bias: float = 1.0")  \
      .Attr("alpha: float = 1.0") \
      .Attr("beta: float = 0.5")  \
      .Attr("T: floattype = DT_FLOAT")

RIVULET_OP("LRN")
    .Input("input: T")
    .Output("output: T")
    .RIVULET_LRN_ATTRS.Shape(LrnShape)
    .Gradient(LrnGradient)
    .Doc(
        "input / (bias + alpha · sum of squares over the channels within depth_radius)^beta, for images [batch, "
        "height, width, channels]; with the attribute _data_format = 'NCHW' channels come second.");

RIVULET_OP("LRNGrad")
    .Input("input_grads: T")
    .Input("input_image: T")
    .Input("output_image: T")
    .Output("output: T")
    .RIVULET_LRN_ATTRS.Shape(LrnGradShape)
    .NotDifferentiable("second derivatives of LRN are not provided")
    .Doc("The gradient of LRN.");

}  // namespace
}  // namespace rivulet
