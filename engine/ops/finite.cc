// Tests for finite numbers, as required by loss scaling.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

RIVULET_OP("AllFinite")
    .Input("x: T")
    .Output("finite: bool")
    .Attr("T: floattype")
    .Shape([](InferenceContext& c) {
      c.set_output(0, Shape{});
      return absl::OkStatus();
    })
    .NotDifferentiable("its value is a truth value")
    .Doc("Whether no element of x is infinite or NaN. True of an empty x.");

// Numbers of the way back are checked too.
Status CheckNumericsGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("CheckNumerics", {g.grad()},
                             {{"message", g.node()->attr<std::string>("message") + " (its gradient)"}}));
  return ops.status();
}

RIVULET_OP("CheckNumerics")
    .Input("tensor: T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("message: string")
    .Shape(SameAsInput(0))
    .Gradient(CheckNumericsGradient)
    .Doc("Its input; an error with `message` where an element is infinite or NaN.");

}  // namespace
}  // namespace rivulet
