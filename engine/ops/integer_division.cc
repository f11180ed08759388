// Remainders, quotients and bitwise operations of integers.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// z = x - n y with a whole n: by x, 1; by y, -n = (z - x) / y.
Status ModGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1);
  g.set_input_grad(0, ops.SumTo(g.grad(), x));
  g.set_input_grad(1, ops.SumTo(ops.Mul(g.grad(), ops.Div(ops.Sub(g.output(0), x), y)), y));
  return ops.status();
}

#define RIVULET_INTEGER_OP(name, types) \
  RIVULET_OP(name).Input("x: T").Input("y: T").Output("z: T").Attr("T: " types).Shape(BroadcastShape)
#define RIVULET_INTEGERS "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"

RIVULET_INTEGER_OP("TruncateDiv", "realnumbertype")
    .Gradient(NoGradient)
    .Doc("x / y rounded towards zero; between integers an error where y is 0.");
RIVULET_INTEGER_OP("FloorMod", "realnumbertype")
    .Gradient(ModGradient)
    .Doc("x - y * floor(x / y), with the sign of y; between integers an error where y is 0.");
RIVULET_INTEGER_OP("TruncateMod", "realnumbertype")
    .Gradient(ModGradient)
    .Doc("x - y * trunc(x / y), with the sign of x; between integers an error where y is 0.");
RIVULET_INTEGER_OP("Mod", "realnumbertype").Gradient(ModGradient).Doc("As TruncateMod.");

#define RIVULET_BITWISE_OP(name) \
  RIVULET_INTEGER_OP(name, RIVULET_INTEGERS).NotDifferentiable("integers have no gradient")
RIVULET_BITWISE_OP("BitwiseAnd").Doc("The bits that x and y both have.");
RIVULET_BITWISE_OP("BitwiseOr").Doc("The bits that x or y has.");
RIVULET_BITWISE_OP("BitwiseXor").Doc("The bits that either x or y has.");
RIVULET_BITWISE_OP("LeftShift").Doc("x shifted left by y bits; a y outside [0, bits) is taken as the nearest inside.");
RIVULET_BITWISE_OP("RightShift")
    .Doc("x shifted right by y bits, keeping its sign; a y outside [0, bits) is taken as the nearest inside.");

RIVULET_OP("Invert")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: " RIVULET_INTEGERS)
    .Shape(SameAsInput(0))
    .NotDifferentiable("integers have no gradient")
    .Doc("Every bit of x turned round.");

RIVULET_OP("PopulationCount")
    .Input("x: T")
    .Output("y: uint8")
    .Attr("T: " RIVULET_INTEGERS)
    .Shape(SameAsInput(0))
    .NotDifferentiable("integers have no gradient")
    .Doc("How many bits of x are set.");

}  // namespace
}  // namespace rivulet
