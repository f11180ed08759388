// Bessel functions, integrals and the functions around gamma.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/unary_gradient.h"

namespace rivulet {
namespace {

Output SignOf(GradientOps& ops, Output x) { return ops.Op("Sign", {x}); }

// y / x, and `at_zero`, its limit, where x is 0.
Output OverX(GradientOps& ops, Output y, Output x, double at_zero) {
  const Output zero = ops.Op("Equal", {x, ops.Scalar(x.dtype(), 0)});
  const Output safe = ops.Op("SelectV2", {zero, ops.Op("OnesLike", {x}), x});
  return ops.Op("SelectV2", {zero, ops.Scale(ops.Op("OnesLike", {x}), at_zero), ops.Div(y, safe)});
}

RIVULET_UNARY_GRADIENT(I0eGradient, ops.Mul(dy, ops.Sub(ops.Op("BesselI1e", {x}), ops.Mul(SignOf(ops, x), y))))
RIVULET_UNARY_GRADIENT(I1eGradient, ops.Mul(dy, ops.Sub(ops.Sub(ops.Op("BesselI0e", {x}), ops.Mul(SignOf(ops, x), y)),
                                                        OverX(ops, y, x, 0.5))))
RIVULET_UNARY_GRADIENT(J0Gradient, ops.Neg(ops.Mul(dy, ops.Op("BesselJ1", {x}))))
RIVULET_UNARY_GRADIENT(J1Gradient, ops.Mul(dy, ops.Sub(ops.Op("BesselJ0", {x}), OverX(ops, y, x, 0.5))))
RIVULET_UNARY_GRADIENT(K0Gradient, ops.Neg(ops.Mul(dy, ops.Op("BesselK1", {x}))))
RIVULET_UNARY_GRADIENT(K1Gradient, ops.Neg(ops.Mul(dy, ops.Add(ops.Op("BesselK0", {x}), ops.Div(y, x)))))
RIVULET_UNARY_GRADIENT(DawsnGradient, ops.Mul(dy, ops.Sub(ops.Scalar(x.dtype(), 1), ops.Scale(ops.Mul(x, y), 2))))
RIVULET_UNARY_GRADIENT(ExpintGradient, ops.Div(ops.Mul(dy, ops.Op("Exp", {x})), x))
Output QuarterTurns(GradientOps& ops, Output x) { return ops.Scale(ops.Square(x), 1.57079632679489661923); }
RIVULET_UNARY_GRADIENT(FresnelCosGradient, ops.Mul(dy, ops.Op("Cos", {QuarterTurns(ops, x)})))
RIVULET_UNARY_GRADIENT(FresnelSinGradient, ops.Mul(dy, ops.Op("Sin", {QuarterTurns(ops, x)})))

// log(x) / (1 - x), whose limit at 1 is -1.
Status SpenceGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), away = ops.Sub(ops.Scalar(x.dtype(), 1), x);
  g.set_input_grad(0, ops.Mul(g.grad(), OverX(ops, ops.Op("Log", {x}), away, -1)));
  return ops.status();
}

// By x alone. The first input counts derivatives, or is one whose derivative TensorFlow does not define either.
Status PolygammaGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output a = g.input(0), x = g.input(1);
  const Output slope = ops.Op("Polygamma", {ops.Add(a, ops.Scalar(a.dtype(), 1)), x});
  g.set_input_grad(1, ops.SumTo(ops.Mul(g.grad(), slope), x));
  return ops.status();
}
Status ZetaGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), q = g.input(1);
  const Output slope = ops.Op("Zeta", {ops.Add(x, ops.Scalar(x.dtype(), 1)), q});
  g.set_input_grad(1, ops.SumTo(ops.Neg(ops.Mul(ops.Mul(g.grad(), x), slope)), q));
  return ops.status();
}

#define RIVULET_SPECIAL_FUNCTION(name, gradient) \
  RIVULET_OP(name).Input("x: T").Output("y: T").Attr("T: floattype").Shape(SameAsInput(0)).Gradient(gradient)

RIVULET_SPECIAL_FUNCTION("BesselI0e", I0eGradient).Doc("The modified Bessel function I of order 0, times e^-|x|.");
RIVULET_SPECIAL_FUNCTION("BesselI1e", I1eGradient).Doc("The modified Bessel function I of order 1, times e^-|x|.");
RIVULET_SPECIAL_FUNCTION("BesselJ0", J0Gradient).Doc("The Bessel function J of order 0.");
RIVULET_SPECIAL_FUNCTION("BesselJ1", J1Gradient).Doc("The Bessel function J of order 1.");
RIVULET_SPECIAL_FUNCTION("BesselK0", K0Gradient).Doc("The modified Bessel function K of order 0; NaN below 0.");
RIVULET_SPECIAL_FUNCTION("BesselK1", K1Gradient).Doc("The modified Bessel function K of order 1; NaN below 0.");
RIVULET_SPECIAL_FUNCTION("Dawsn", DawsnGradient)
    .Doc("Dawson's integral: e^(-x^2) times the integral of e^(t^2) from 0 to x.");
RIVULET_SPECIAL_FUNCTION("Expint", ExpintGradient).Doc("The exponential integral Ei; NaN below 0.");
RIVULET_SPECIAL_FUNCTION("FresnelCos", FresnelCosGradient).Doc("The integral of cos(pi t^2 / 2) from 0 to x.");
RIVULET_SPECIAL_FUNCTION("FresnelSin", FresnelSinGradient).Doc("The integral of sin(pi t^2 / 2) from 0 to x.");
RIVULET_SPECIAL_FUNCTION("Spence", SpenceGradient).Doc("The integral of log(t) / (1 - t) from 1 to x; NaN below 0.");

RIVULET_OP("Polygamma")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(BroadcastShape)
    .Gradient(PolygammaGradient)
    .Doc("The derivative number a of Digamma at x; NaN unless a is 0, 1, 2, …");

RIVULET_OP("Zeta")
    .Input("x: T")
    .Input("q: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(BroadcastShape)
    .Gradient(ZetaGradient)
    .Doc("Hurwitz' zeta function: the sum of (q + k)^-x over k = 0, 1, 2, …; x is above 1.");

#define RIVULET_INCOMPLETE_GAMMA(name) \
  RIVULET_OP(name)                     \
      .Input("a: T")                   \
      .Input("x: T")                   \
      .Output("z: T")                  \
      .Attr("T: {float, double}")      \
      .Shape(BroadcastShape)           \
      .NotDifferentiable("the derivative by a is not offered")
RIVULET_INCOMPLETE_GAMMA("Igamma").Doc("The lower incomplete gamma function of a at x, over gamma(a).");
RIVULET_INCOMPLETE_GAMMA("Igammac").Doc("1 - Igamma(a, x), exact where that is small.");

RIVULET_OP("NextAfter")
    .Input("x1: T")
    .Input("x2: T")
    .Output("output: T")
    .Attr("T: {float, double} = DT_FLOAT")
    .Shape(BroadcastShape)
    .NotDifferentiable("its output is a neighbour of x1")
    .Doc("The number next to x1 in the direction of x2.");

Status BetaincShape(InferenceContext& c) {
  Shape all = c.input(0);
  for (int i = 1; i < 3; ++i) {
    if (c.input(i).known_rank() && c.input(i).rank() == 0) continue;
    const bool scalar = all.known_rank() && all.rank() == 0;
    auto merged = scalar ? StatusOr<Shape>(c.input(i)) : Shape::Merge(all, c.input(i));
    if (!merged.ok())
      return InvalidArgument("a, b and x are of one shape or scalars, not {} and {}", all.ToString(),
                             c.input(i).ToString());
    all = *std::move(merged);
  }
  c.set_output(0, std::move(all));
  return absl::OkStatus();
}

RIVULET_OP("Betainc")
    .Input("a: T")
    .Input("b: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(BetaincShape)
    .NotDifferentiable("the derivatives by a and b are not offered")
    .Doc("The regularised incomplete beta function of a and b at x.");

}  // namespace
}  // namespace rivulet
