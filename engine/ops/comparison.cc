// Comparisons, logic, and the choice between two tensors.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

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

// condition: a scalar, of t's shape, or a vector that chooses among t's slices along the first axis.
Status SelectV1Shape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape values, Shape::Merge(c.input(1), c.input(2)));
  const Shape& condition = c.input(0);
  const bool fits = !condition.known_rank() || condition.rank() == 0 || Shape::Compatible(condition, values) ||
                    (condition.rank() == 1 && values.known_rank() && values.rank() >= 1 &&
                     Shape::Compatible(condition, Shape({values.dim(0)})));
  if (!fits)
    return InvalidArgument("the condition {} must be a scalar, of the shape {}, or a vector of its first size",
                           condition.ToString(), values.ToString());
  c.set_output(0, std::move(values));
  return absl::OkStatus();
}

Status SelectV1Gradient(GradientContext& g) {
  GradientOps ops(g);
  const Output zeros = ops.ZerosLike(g.grad());
  g.set_input_grad(1, ops.Op("Select", {g.input(0), g.grad(), zeros}));
  g.set_input_grad(2, ops.Op("Select", {g.input(0), zeros, g.grad()}));
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

RIVULET_COMPARISON_OP("Equal", RIVULET_ANY_TYPE).Doc("x == y.");
RIVULET_COMPARISON_OP("NotEqual", RIVULET_ANY_TYPE).Doc("x != y.");
RIVULET_COMPARISON_OP("Less", "realnumbertype").Doc("x < y.");
RIVULET_COMPARISON_OP("LessEqual", "realnumbertype").Doc("x <= y.");
RIVULET_COMPARISON_OP("Greater", "realnumbertype").Doc("x > y.");
RIVULET_COMPARISON_OP("GreaterEqual", "realnumbertype").Doc("x >= y.");

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

RIVULET_OP("Select")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SelectV1Shape)
    .Gradient(SelectV1Gradient)
    .Doc("t where condition, else e, of one shape; a vector chooses slices along the first axis.");

RIVULET_OP("SelectV2")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SelectShape)
    .Gradient(SelectGradient)
    .Doc("t where condition, else e; all three are broadcast together.");

}  // namespace
}  // namespace rivulet
