// Comparisons, logic, and the choice between two tensors.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_NUMBERS "realnumbertype"
#define RIVULET_ANY "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool}"

Status SelectShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape values, Shape::Broadcast(c.input(1), c.input(2)));
  RIVULET_ASSIGN_OR_RETURN(Shape all, Shape::Broadcast(c.input(0), values));
  c.set_output(0, std::move(all));
  return absl::OkStatus();
}

Status SelectGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output zeros = ops.ZerosLike(g.grad());
  const Output condition = g.input(0);
  g.set_input_grad(1, ops.SumTo(ops.Op("SelectV2", {condition, g.grad(), zeros}), g.input(1)));
  g.set_input_grad(2, ops.SumTo(ops.Op("SelectV2", {condition, zeros, g.grad()}), g.input(2)));
  return ops.status();
}

#define RIVULET_COMPARISON_OP(name, types) \
  RIVULET_OP(name)                         \
      .Input("x: T")                       \
      .Input("y: T")                       \
      .Output("z: bool")                   \
      .Attr("T: " types)                   \
      .Shape(BroadcastShape)               \
      .NotDifferentiable("its output is bool")

RIVULET_COMPARISON_OP("Equal", RIVULET_ANY).Doc("x == y.");
RIVULET_COMPARISON_OP("NotEqual", RIVULET_ANY).Doc("x != y.");
RIVULET_COMPARISON_OP("Less", RIVULET_NUMBERS).Doc("x < y.");
RIVULET_COMPARISON_OP("LessEqual", RIVULET_NUMBERS).Doc("x <= y.");
RIVULET_COMPARISON_OP("Greater", RIVULET_NUMBERS).Doc("x > y.");
RIVULET_COMPARISON_OP("GreaterEqual", RIVULET_NUMBERS).Doc("x >= y.");

RIVULET_OP("ApproximateEqual")
    .Input("x: T")
    .Input("y: T")
    .Output("z: bool")
    .Attr("T: floattype")
    .Attr("tolerance: float = 0.00001")
    .Shape(AllSameShape)
    .NotDifferentiable("its output is bool")
    .Doc("|x - y| < tolerance.");

RIVULET_OP("LogicalAnd")
    .Input("x: bool")
    .Input("y: bool")
    .Output("z: bool")
    .Shape(BroadcastShape)
    .NotDifferentiable("its output is bool")
    .Doc("x and y.");

RIVULET_OP("LogicalOr")
    .Input("x: bool")
    .Input("y: bool")
    .Output("z: bool")
    .Shape(BroadcastShape)
    .NotDifferentiable("its output is bool")
    .Doc("x or y.");

RIVULET_OP("LogicalNot")
    .Input("x: bool")
    .Output("y: bool")
    .Shape(SameAsInput(0))
    .NotDifferentiable("its output is bool")
    .Doc("not x.");

RIVULET_OP("SelectV2")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY)
    .Shape(SelectShape)
    .Gradient(SelectGradient)
    .Doc("t where condition, else e; all three are broadcast together.");

}  // namespace
}  // namespace rivulet
