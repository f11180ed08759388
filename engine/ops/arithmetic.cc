// Arithmetic on two tensors that are broadcast together, and the sum of many.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_ARITHMETIC_OP(name, types) \
  RIVULET_OP(name).Input("x: T").Input("y: T").Output("z: T").Attr("T: " types).Shape(BroadcastShape)

#define RIVULET_NUMBERS "{half, bfloat16, float, double, int32, int64, uint8}"
#define RIVULET_SIGNED "{half, bfloat16, float, double, int32, int64}"
#define RIVULET_POWERS "{half, bfloat16, float, double, int8, int16, int32, int64}"
#define RIVULET_FLOATS "floattype"

// Sets the gradients of both inputs, summed to their shapes.
Status SetBoth(GradientContext& g, GradientOps& ops, Output x_grad, Output y_grad) {
  g.set_input_grad(0, ops.SumTo(x_grad, g.input(0)));
  g.set_input_grad(1, ops.SumTo(y_grad, g.input(1)));
  return ops.status();
}

Status AddGradient(GradientContext& g) {
  GradientOps ops(g);
  return SetBoth(g, ops, g.grad(), g.grad());
}

Status SubGradient(GradientContext& g) {
  GradientOps ops(g);
  return SetBoth(g, ops, g.grad(), ops.Neg(g.grad()));
}

Status MulGradient(GradientContext& g) {
  GradientOps ops(g);
  return SetBoth(g, ops, ops.Mul(g.grad(), g.input(1)), ops.Mul(g.grad(), g.input(0)));
}

Status DivGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  return SetBoth(g, ops, ops.Div(g.grad(), y), ops.Mul(g.grad(), ops.Div(ops.Div(ops.Neg(x), y), y)));
}

Status DivNoNanGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  const Output ratio = ops.Op("DivNoNan", {ops.Op("DivNoNan", {ops.Neg(x), y}), y});
  return SetBoth(g, ops, ops.Op("DivNoNan", {g.grad(), y}), ops.Mul(g.grad(), ratio));
}

Status SquaredDifferenceGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x_grad = ops.Mul(ops.Scale(g.grad(), 2), ops.Sub(g.input(0), g.input(1)));
  return SetBoth(g, ops, x_grad, ops.Neg(x_grad));
}

// d x^y / dy = x^y log x, taken as 0 where x <= 0, as TensorFlow does.
Status PowGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  const Output less_one = ops.Sub(y, ops.Scalar(y.dtype(), 1));
  const Output x_grad = ops.Mul(g.grad(), ops.Mul(y, ops.Op("Pow", {x, less_one})));
  const Output positive = ops.Op("Greater", {x, ops.Scalar(x.dtype(), 0)});
  // Both branches of a select are computed: the logarithm must see no x <= 0, or 0 · inf reaches the result.
  const Output safe_x = ops.Op("SelectV2", {positive, x, ops.Op("OnesLike", {x})});
  const Output log_x = ops.Op("SelectV2", {positive, ops.Op("Log", {safe_x}), ops.ZerosLike(x)});
  return SetBoth(g, ops, x_grad, ops.Mul(g.grad(), ops.Mul(g.output(0), log_x)));
}

// The chosen operand gets the gradient; at equality the first does.
Status ChooseGradient(GradientContext& g, std::string_view comparison) {
  GradientOps ops(g);
  const Output first = ops.Op(comparison, {g.input(0), g.input(1)});
  const Output zeros = ops.ZerosLike(g.grad());
  return SetBoth(g, ops, ops.Op("SelectV2", {first, g.grad(), zeros}), ops.Op("SelectV2", {first, zeros, g.grad()}));
}
Status MaximumGradient(GradientContext& g) { return ChooseGradient(g, "GreaterEqual"); }
Status MinimumGradient(GradientContext& g) { return ChooseGradient(g, "LessEqual"); }

Status ClipShape(InferenceContext& c) {
  for (int i = 1; i < 3; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Shape both, Shape::Broadcast(c.input(0), c.input(i)));
    if (!Shape::Compatible(both, c.input(0)))
      return InvalidArgument("the bound {} has more elements than t {}", c.input(i).ToString(), c.input(0).ToString());
  }
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status ClipGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output t = g.input(0), zeros = ops.ZerosLike(g.grad());
  const Output below = ops.Op("Less", {t, g.input(1)}), above = ops.Op("Greater", {t, g.input(2)});
  const Output outside = ops.Op("LogicalOr", {below, above});
  g.set_input_grad(0, ops.Op("SelectV2", {outside, zeros, g.grad()}));
  g.set_input_grad(1, ops.SumTo(ops.Op("SelectV2", {below, g.grad(), zeros}), g.input(1)));
  g.set_input_grad(2, ops.SumTo(ops.Op("SelectV2", {above, g.grad(), zeros}), g.input(2)));
  return ops.status();
}

Status AddNGradient(GradientContext& g) {
  for (int i = 0; i < static_cast<int>(g.node()->inputs().size()); ++i) g.set_input_grad(i, g.grad());
  return absl::OkStatus();
}

RIVULET_ARITHMETIC_OP("Add", "realnumbertype").Gradient(AddGradient).Doc("x + y.");
RIVULET_ARITHMETIC_OP("AddV2", "realnumbertype").Gradient(AddGradient).Doc("x + y.");
RIVULET_ARITHMETIC_OP("Sub", "realnumbertype").Gradient(SubGradient).Doc("x - y.");
RIVULET_ARITHMETIC_OP("Mul", "realnumbertype").Gradient(MulGradient).Doc("x * y.");
RIVULET_ARITHMETIC_OP("Div", "realnumbertype")
    .Gradient(DivGradient)
    .Doc("x / y; between integers rounded towards zero, and an error where y is 0.");
RIVULET_ARITHMETIC_OP("RealDiv", RIVULET_FLOATS).Gradient(DivGradient).Doc("x / y.");
RIVULET_ARITHMETIC_OP("DivNoNan", RIVULET_FLOATS).Gradient(DivNoNanGradient).Doc("x / y, and 0 where y is 0.");
RIVULET_ARITHMETIC_OP("FloorDiv", "realnumbertype")
    .Gradient(NoGradient)
    .Doc("The largest integer not above x / y; between integers an error where y is 0.");
RIVULET_ARITHMETIC_OP("SquaredDifference", RIVULET_SIGNED).Gradient(SquaredDifferenceGradient).Doc("(x - y)^2.");
RIVULET_ARITHMETIC_OP("Pow", RIVULET_POWERS)
    .Gradient(PowGradient)
    .Doc("x to the power y; an integer to a negative power is an error.");
RIVULET_ARITHMETIC_OP("Maximum", "realnumbertype").Gradient(MaximumGradient).Doc("The larger of x and y.");
RIVULET_ARITHMETIC_OP("Minimum", "realnumbertype").Gradient(MinimumGradient).Doc("The smaller of x and y.");

RIVULET_OP("ClipByValue")
    .Input("t: T")
    .Input("clip_value_min: T")
    .Input("clip_value_max: T")
    .Output("output: T")
    .Attr("T: realnumbertype")
    .Shape(ClipShape)
    .Gradient(ClipGradient)
    .Doc(
        "min(max(t, clip_value_min), clip_value_max); the bounds are scalars or can be broadcast to t. Where t is "
        "beyond a bound, that bound gets the gradient.");

RIVULET_OP("AddN")
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, variant}")
    .Shape(AllSameShape)
    .Gradient(AddNGradient)
    .Doc("The sum of all inputs, from the first to the last; of lists, element by element.");

}  // namespace
}  // namespace rivulet
