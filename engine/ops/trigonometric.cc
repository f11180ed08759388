// Trigonometric and hyperbolic functions and their inverses.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/unary_gradient.h"

namespace rivulet {
namespace {

Output One(GradientOps& ops, Output like) { return ops.Scalar(like.dtype(), 1); }
Output OnePlusSquare(GradientOps& ops, Output x) { return ops.Add(One(ops, x), ops.Square(x)); }
Output OneMinusSquare(GradientOps& ops, Output x) { return ops.Sub(One(ops, x), ops.Square(x)); }

RIVULET_UNARY_GRADIENT(SinGradient, ops.Mul(dy, ops.Op("Cos", {x})))
RIVULET_UNARY_GRADIENT(CosGradient, ops.Neg(ops.Mul(dy, ops.Op("Sin", {x}))))
RIVULET_UNARY_GRADIENT(TanGradient, ops.Mul(dy, OnePlusSquare(ops, y)))
RIVULET_UNARY_GRADIENT(AsinGradient, ops.Div(dy, ops.Op("Sqrt", {OneMinusSquare(ops, x)})))
RIVULET_UNARY_GRADIENT(AcosGradient, ops.Neg(ops.Div(dy, ops.Op("Sqrt", {OneMinusSquare(ops, x)}))))
RIVULET_UNARY_GRADIENT(AtanGradient, ops.Div(dy, OnePlusSquare(ops, x)))
RIVULET_UNARY_GRADIENT(SinhGradient, ops.Mul(dy, ops.Op("Cosh", {x})))
RIVULET_UNARY_GRADIENT(CoshGradient, ops.Mul(dy, ops.Op("Sinh", {x})))
RIVULET_UNARY_GRADIENT(AsinhGradient, ops.Div(dy, ops.Op("Cosh", {y})))
RIVULET_UNARY_GRADIENT(AcoshGradient, ops.Div(dy, ops.Op("Sinh", {y})))
RIVULET_UNARY_GRADIENT(AtanhGradient, ops.Div(dy, OneMinusSquare(ops, x)))

// The angle of (x, y): by y, x / (x² + y²); by x, -y / (x² + y²).
Status Atan2Gradient(GradientContext& g) {
  GradientOps ops(g);
  const Output y = g.input(0), x = g.input(1);
  const Output scaled = ops.Div(g.grad(), ops.Add(ops.Square(x), ops.Square(y)));
  g.set_input_grad(0, ops.SumTo(ops.Mul(x, scaled), y));
  g.set_input_grad(1, ops.SumTo(ops.Mul(ops.Neg(y), scaled), x));
  return ops.status();
}

#define RIVULET_TRIGONOMETRIC_OP(name) \
  RIVULET_OP(#name).Input("x: T").Output("y: T").Attr("T: floattype").Shape(SameAsInput(0)).Gradient(name##Gradient)

RIVULET_TRIGONOMETRIC_OP(Sin).Doc("The sine of x.");
RIVULET_TRIGONOMETRIC_OP(Cos).Doc("The cosine of x.");
RIVULET_TRIGONOMETRIC_OP(Tan).Doc("The tangent of x.");
RIVULET_TRIGONOMETRIC_OP(Asin).Doc("The angle in [-pi/2, pi/2] whose sine is x; NaN outside [-1, 1].");
RIVULET_TRIGONOMETRIC_OP(Acos).Doc("The angle in [0, pi] whose cosine is x; NaN outside [-1, 1].");
RIVULET_TRIGONOMETRIC_OP(Atan).Doc("The angle in [-pi/2, pi/2] whose tangent is x.");
RIVULET_TRIGONOMETRIC_OP(Sinh).Doc("The hyperbolic sine of x.");
RIVULET_TRIGONOMETRIC_OP(Cosh).Doc("The hyperbolic cosine of x.");
RIVULET_TRIGONOMETRIC_OP(Asinh).Doc("The inverse of Sinh.");
RIVULET_TRIGONOMETRIC_OP(Acosh).Doc("The inverse of Cosh for x >= 1; NaN below.");
RIVULET_TRIGONOMETRIC_OP(Atanh).Doc("The inverse of Tanh; NaN outside [-1, 1].");

RIVULET_OP("Atan2")
    .Input("y: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: floattype")
    .Shape(BroadcastShape)
    .Gradient(Atan2Gradient)
    .Doc("The angle in [-pi, pi] of the point (x, y).");

}  // namespace
}  // namespace rivulet
