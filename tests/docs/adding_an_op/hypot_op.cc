// The length of the hypotenuse.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// z = sqrt(x² + y²), so dz/dx = x / z and dz/dy = y / z; at the origin, where there is no derivative, both are 0.
Status HypotGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1), z = g.output(0);
  const Output x_grad = ops.Mul(g.grad(), ops.Op("DivNoNan", {x, z}));
  const Output y_grad = ops.Mul(g.grad(), ops.Op("DivNoNan", {y, z}));
  g.set_input_grad(0, ops.SumTo(x_grad, x));
  g.set_input_grad(1, ops.SumTo(y_grad, y));
  return ops.status();
}

RIVULET_OP("Hypot")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(BroadcastShape)
    .Gradient(HypotGradient)
    .Doc("sqrt(x^2 + y^2) without overflow, x and y broadcast together.");

}  // namespace
}  // namespace rivulet
