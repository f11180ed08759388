// Cumulative sums and products along an axis.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ScanShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 1));
  if (axis && c.input(0).known_rank()) RIVULET_RETURN_IF_ERROR(NormalizeAxis(*axis, c.input(0).rank()).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status CumprodGradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(ScanShape(c));
  RIVULET_ASSIGN_OR_RETURN(Shape shape, Shape::Merge(c.input(0), c.input(2)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

AttrMap Direction(const Node& node, bool turned) {
  return {{"exclusive", node.attr<bool>("exclusive")}, {"reverse", node.attr<bool>("reverse") != turned}};
}

Status CumsumGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Cumsum", {g.grad(), g.input(1)}, Direction(*g.node(), /*turned=*/true)));
  return ops.status();
}

Status CumprodGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("CumprodGrad", {g.input(0), g.input(1), g.grad()}, Direction(*g.node(), false)));
  return ops.status();
}

#define RIVULET_SCAN_OP(name)                                   \
  RIVULET_OP(name)                                              \
      .Input("x: T")                                            \
      .Input("axis: Tidx")                                      \
      .Output("out: T")                                         \
      .Attr("exclusive: bool = false")                          \
      .Attr("reverse: bool = false")                            \
      .Attr("T: {half, bfloat16, float, double, int32, int64}") \
      .Attr("Tidx: {int32, int64} = DT_INT32")                  \
      .Shape(ScanShape)

RIVULET_SCAN_OP("Cumsum")
    .Gradient(CumsumGradient)
    .Doc(
        "out[i] is the sum of x up to and with i along an axis; with exclusive, without i; with reverse, from the end. "
        "The axis must be known when a program is compiled.");
RIVULET_SCAN_OP("Cumprod")
    .Gradient(CumprodGradient)
    .Doc(
        "out[i] is the product of x up to and with i along an axis; with exclusive, without i; with reverse, from the "
        "end. The axis must be known when a program is compiled.");

RIVULET_OP("CumprodGrad")
    .Input("x: T")
    .Input("axis: Tidx")
    .Input("dy: T")
    .Output("dx: T")
    .Attr("exclusive: bool = false")
    .Attr("reverse: bool = false")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(CumprodGradShape)
    .NotDifferentiable("the second derivative of a cumulative product is not provided")
    .Doc("The gradient of Cumprod, right at zeros too: it divides by nothing. Our own op.");

}  // namespace
}  // namespace rivulet
