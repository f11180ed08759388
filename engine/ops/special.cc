// Special functions, and products and quotients that take 0 before anything else.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status LgammaGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Mul(g.grad(), ops.Op("Digamma", {g.input(0)})));
  return ops.status();
}

// sqrt(pi)/2 e^(y²).
Status ErfinvGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output slope = ops.Scale(ops.Op("Exp", {ops.Square(g.output(0))}), 0.88622692545275801365);
  g.set_input_grad(0, ops.Mul(g.grad(), slope));
  return ops.status();
}

// sqrt(2 pi) e^(y²/2).
Status NdtriGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output slope = ops.Scale(ops.Op("Exp", {ops.Scale(ops.Square(g.output(0)), 0.5)}), 2.50662827463100050242);
  g.set_input_grad(0, ops.Mul(g.grad(), slope));
  return ops.status();
}

// 1 where x is not 0, else 0.
Output NotZero(GradientOps& ops, Output x) {
  return ops.Op("Cast", {ops.Op("NotEqual", {x, ops.Scalar(x.dtype(), 0)})}, {{"DstT", x.dtype()}});
}

Status SetBothScaled(GradientContext& g, GradientOps& ops, Output by_x, Output by_y) {
  g.set_input_grad(0, ops.SumTo(ops.Mul(g.grad(), by_x), g.input(0)));
  g.set_input_grad(1, ops.SumTo(ops.Mul(g.grad(), by_y), g.input(1)));
  return ops.status();
}

Status XdivyGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  return SetBothScaled(g, ops, ops.Op("Xdivy", {NotZero(ops, x), y}), ops.Op("Xdivy", {ops.Neg(x), ops.Square(y)}));
}
Status XlogyGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  return SetBothScaled(g, ops, ops.Op("Xlogy", {NotZero(ops, x), y}), ops.Op("Xdivy", {x, y}));
}
Status Xlog1pyGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  return SetBothScaled(g, ops, ops.Op("Xlog1py", {NotZero(ops, x), y}),
                       ops.Op("Xdivy", {x, ops.Add(y, ops.Scalar(y.dtype(), 1))}));
}

Status MulNoNanGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.SumTo(ops.Op("MulNoNan", {g.grad(), g.input(1)}), g.input(0)));
  g.set_input_grad(1, ops.SumTo(ops.Op("MulNoNan", {g.input(0), g.grad()}), g.input(1)));
  return ops.status();
}

#define RIVULET_SPECIAL_OP(name) \
  RIVULET_OP(name).Input("x: T").Output("y: T").Attr("T: floattype").Shape(SameAsInput(0))
#define RIVULET_SPECIAL_BINARY_OP(name) \
  RIVULET_OP(name).Input("x: T").Input("y: T").Output("z: T").Attr("T: floattype").Shape(BroadcastShape)

RIVULET_SPECIAL_OP("Lgamma").Gradient(LgammaGradient).Doc("The logarithm of the absolute value of the gamma function.");
RIVULET_SPECIAL_OP("Digamma")
    .NotDifferentiable("the trigamma function is not offered")
    .Doc("The derivative of Lgamma; NaN at 0 and the negative integers.");
RIVULET_SPECIAL_OP("Erfinv").Gradient(ErfinvGradient).Doc("The inverse of Erf; NaN outside [-1, 1].");
RIVULET_SPECIAL_OP("Ndtri")
    .Gradient(NdtriGradient)
    .Doc("The inverse of the standard normal distribution's cumulative function; NaN outside [0, 1].");

RIVULET_SPECIAL_BINARY_OP("Xdivy").Gradient(XdivyGradient).Doc("x / y, and 0 where x is 0, for every y.");
RIVULET_SPECIAL_BINARY_OP("Xlogy").Gradient(XlogyGradient).Doc("x * log(y), and 0 where x is 0, for every y.");
RIVULET_SPECIAL_BINARY_OP("Xlog1py").Gradient(Xlog1pyGradient).Doc("x * log(1 + y), and 0 where x is 0, for every y.");
RIVULET_SPECIAL_BINARY_OP("MulNoNan").Gradient(MulNoNanGradient).Doc("x * y, and 0 where y is 0, for every x.");

}  // namespace
}  // namespace rivulet
