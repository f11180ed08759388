// Functions of each element of one tensor.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/unary_gradient.h"

namespace rivulet {
namespace {

#define RIVULET_UNARY_OP(name, types) \
  RIVULET_OP(name).Input("x: T").Output("y: T").Attr("T: " types).Shape(SameAsInput(0))

#define RIVULET_SIGNED_NUMBERS "{half, bfloat16, float, double, int8, int16, int32, int64}"
#define RIVULET_FLOATS "floattype"

RIVULET_UNARY_GRADIENT(NegGradient, ops.Neg(dy))
RIVULET_UNARY_GRADIENT(AbsGradient, ops.Mul(dy, ops.Op("Sign", {x})))
RIVULET_UNARY_GRADIENT(SquareGradient, ops.Mul(dy, ops.Scale(x, 2)))
// Ops of their own, because they are 0 wherever dy is, also where the slope is infinite: 0 / 0 would be NaN.
RIVULET_UNARY_GRADIENT(SqrtGradient, ops.Op("SqrtGrad", {y, dy}))
RIVULET_UNARY_GRADIENT(RsqrtGradient, ops.Op("RsqrtGrad", {y, dy}))
RIVULET_UNARY_GRADIENT(ReciprocalGradient, ops.Op("ReciprocalGrad", {y, dy}))
RIVULET_UNARY_GRADIENT(ExpGradient, ops.Mul(dy, y))
RIVULET_UNARY_GRADIENT(LogGradient, ops.Div(dy, x))
RIVULET_UNARY_GRADIENT(Log1pGradient, ops.Div(dy, ops.Add(x, ops.Scalar(x.dtype(), 1))))
// 2/sqrt(pi) e^-x².
Output Bell(GradientOps& ops, Output x, double sign) {
  return ops.Scale(ops.Op("Exp", {ops.Neg(ops.Square(x))}), sign * 1.12837916709551257390);
}
RIVULET_UNARY_GRADIENT(ErfGradient, ops.Mul(dy, Bell(ops, x, 1)))
RIVULET_UNARY_GRADIENT(ErfcGradient, ops.Mul(dy, Bell(ops, x, -1)))
RIVULET_UNARY_GRADIENT(Expm1Gradient, ops.Mul(dy, ops.Add(y, ops.Scalar(y.dtype(), 1))))
RIVULET_UNARY_GRADIENT(L2LossGradient, ops.Mul(x, dy))

// The derivatives of z = f(y, dy) by y, and of the same function again by dy, on which it depends linearly.
Status SetBothOfGrad(GradientContext& g, GradientOps& ops, Output by_y) {
  g.set_input_grad(0, by_y);
  g.set_input_grad(1, ops.Op(g.node()->type(), {g.input(0), g.grad()}));
  return ops.status();
}
Status SqrtGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output share = ops.Div(g.grad(), g.input(0));
  g.set_input_grad(0, ops.Neg(ops.Mul(share, g.output(0))));
  g.set_input_grad(1, ops.Scale(share, 0.5));
  return ops.status();
}
Status RsqrtGradGradient(GradientContext& g) {
  GradientOps ops(g);
  return SetBothOfGrad(g, ops, ops.Mul(ops.Mul(ops.Scale(g.grad(), -1.5), g.input(1)), ops.Square(g.input(0))));
}
Status ReciprocalGradGradient(GradientContext& g) {
  GradientOps ops(g);
  return SetBothOfGrad(g, ops, ops.Mul(ops.Mul(ops.Scale(g.grad(), -2), g.input(1)), g.input(0)));
}

RIVULET_UNARY_OP("Neg", RIVULET_SIGNED_NUMBERS).Gradient(NegGradient).Doc("-x.");
RIVULET_UNARY_OP("Abs", RIVULET_SIGNED_NUMBERS).Gradient(AbsGradient).Doc("|x|; its gradient at 0 is 0.");
RIVULET_UNARY_OP("Sign", RIVULET_SIGNED_NUMBERS).Gradient(NoGradient).Doc("-1, 0 or 1; NaN stays NaN.");
RIVULET_UNARY_OP("Square", "realnumbertype").Gradient(SquareGradient).Doc("x^2.");
RIVULET_UNARY_OP("Sqrt", RIVULET_FLOATS).Gradient(SqrtGradient).Doc("The square root of x.");
RIVULET_UNARY_OP("Rsqrt", RIVULET_FLOATS).Gradient(RsqrtGradient).Doc("1 / sqrt(x).");
RIVULET_UNARY_OP("Exp", RIVULET_FLOATS).Gradient(ExpGradient).Doc("e^x.");
RIVULET_UNARY_OP("Log", RIVULET_FLOATS).Gradient(LogGradient).Doc("The natural logarithm of x.");
RIVULET_UNARY_OP("Log1p", RIVULET_FLOATS).Gradient(Log1pGradient).Doc("log(1 + x), exact near 0.");
RIVULET_UNARY_OP("Erf", RIVULET_FLOATS).Gradient(ErfGradient).Doc("The error function of x.");
RIVULET_UNARY_OP("Erfc", RIVULET_FLOATS).Gradient(ErfcGradient).Doc("1 - erf(x), exact where that is small.");
RIVULET_UNARY_OP("Floor", RIVULET_FLOATS).Gradient(NoGradient).Doc("The largest integer not above x.");

RIVULET_UNARY_OP("Ceil", RIVULET_FLOATS).Gradient(NoGradient).Doc("The smallest integer not below x.");
RIVULET_UNARY_OP("Round", RIVULET_SIGNED_NUMBERS)
    .Gradient(NoGradient)
    .Doc("The integer nearest to x, the even one where two are.");
RIVULET_UNARY_OP("Rint", RIVULET_FLOATS).Gradient(NoGradient).Doc("As Round.");
RIVULET_UNARY_OP("Reciprocal", RIVULET_FLOATS).Gradient(ReciprocalGradient).Doc("1 / x.");
RIVULET_UNARY_OP("Inv", RIVULET_FLOATS).Gradient(ReciprocalGradient).Doc("1 / x: the older name of Reciprocal.");
RIVULET_UNARY_OP("Expm1", RIVULET_FLOATS).Gradient(Expm1Gradient).Doc("e^x - 1, exact near 0.");

#define RIVULET_UNARY_GRAD_OP(name) \
  RIVULET_OP(name).Input("y: T").Input("dy: T").Output("z: T").Attr("T: " RIVULET_FLOATS).Shape(AllSameShape)

RIVULET_UNARY_GRAD_OP("SqrtGrad")
    .Gradient(SqrtGradGradient)
    .Doc("dy / (2 y), and 0 where dy is 0: the gradient of y = sqrt(x).");
RIVULET_UNARY_GRAD_OP("RsqrtGrad")
    .Gradient(RsqrtGradGradient)
    .Doc("-dy * y^3 / 2, and 0 where dy is 0: the gradient of y = 1 / sqrt(x).");
RIVULET_UNARY_GRAD_OP("ReciprocalGrad")
    .Gradient(ReciprocalGradGradient)
    .Doc("-dy * y^2, and 0 where dy is 0: the gradient of y = 1 / x.");
RIVULET_UNARY_GRAD_OP("InvGrad").Gradient(ReciprocalGradGradient).Doc("The older name of ReciprocalGrad.");

#define RIVULET_PREDICATE_OP(name) \
  RIVULET_OP(name)                 \
      .Input("x: T")               \
      .Output("y: bool")           \
      .Attr("T: " RIVULET_FLOATS)  \
      .Shape(SameAsInput(0))       \
      .NotDifferentiable("its output is bool")

RIVULET_PREDICATE_OP("IsNan").Doc("Whether x is NaN.");
RIVULET_PREDICATE_OP("IsInf").Doc("Whether x is infinite.");
RIVULET_PREDICATE_OP("IsFinite").Doc("Whether x is neither NaN nor infinite.");

RIVULET_OP("L2Loss")
    .Input("t: T")
    .Output("output: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(ScalarShape)
    .Gradient(L2LossGradient)
    .Doc("Half the sum of squares of all elements.");

}  // namespace
}  // namespace rivulet
