// Elements chosen one by one along an axis (NumPy's take_along_axis, ONNX's GatherElements and ScatterElements).
// TensorFlow has no such ops; the names are our own.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// indices have the tensor's rank, and no axis but the chosen one is longer than the tensor's.
Status CheckIndices(const InferenceContext& c) {
  const Shape &tensor = c.input(0), &indices = c.input(1);
  if (!tensor.known_rank() || !indices.known_rank()) return absl::OkStatus();
  if (tensor.rank() != indices.rank() || tensor.rank() == 0)
    return InvalidArgument("indices of {} and a tensor of {} must have one rank, at least 1", indices.ToString(),
                           tensor.ToString());
  RIVULET_ASSIGN_OR_RETURN(const int chosen, NormalizeAxis(c.attr<int64_t>("axis"), tensor.rank()));
  for (int axis = 0; axis < tensor.rank(); ++axis)
    if (axis != chosen && tensor.dim(axis) != kUnknownDim && indices.dim(axis) > tensor.dim(axis))
      return InvalidArgument("axis {} of indices {} is longer than that of {}", axis, indices.ToString(),
                             tensor.ToString());
  return absl::OkStatus();
}

Status TakeShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckIndices(c));
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

Status ScatterShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckIndices(c));
  if (!Shape::Compatible(c.input(1), c.input(2)))
    return InvalidArgument("indices {} and updates {} must have one shape", c.input(1).ToString(),
                           c.input(2).ToString());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Output Take(GradientContext& g, GradientOps& ops, Output from) {
  return ops.Op("TakeAlongAxis", {from, g.input(1)}, {{"axis", g.node()->attr<int64_t>("axis")}});
}
Output Scatter(GradientContext& g, GradientOps& ops, Output into, Output updates, std::string reduction) {
  return ops.Op("ScatterAlongAxis", {into, g.input(1), updates},
                {{"axis", g.node()->attr<int64_t>("axis")}, {"reduction", std::move(reduction)}});
}

Status TakeGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, Scatter(g, ops, ops.ZerosLike(g.input(0)), g.grad(), "add"));
  return ops.status();
}

Status ScatterGradient(GradientContext& g) {
  GradientOps ops(g);
  const std::string& reduction = g.node()->attr<std::string>("reduction");
  const Output x = g.input(0), updates = g.input(2);
  if (reduction == "none") {
    g.set_input_grad(0, Scatter(g, ops, g.grad(), ops.ZerosLike(updates), "none"));
    g.set_input_grad(2, Take(g, ops, g.grad()));
  } else if (reduction == "add") {
    g.set_input_grad(0, g.grad());
    g.set_input_grad(2, Take(g, ops, g.grad()));
  } else if (reduction == "mul") {
    return Unimplemented("the gradient of ScatterAlongAxis with reduction 'mul'");
  } else {  // elements tied for the extreme share the gradient equally
    const auto equal = [&](Output a, Output b) {
      return ops.Op("Cast", {ops.Op("Equal", {a, b})}, {{"DstT", x.dtype()}});
    };
    const Output from_x = equal(x, g.output(0)), from_updates = equal(updates, Take(g, ops, g.output(0)));
    const Output share = ops.Div(g.grad(), Scatter(g, ops, from_x, from_updates, "add"));
    g.set_input_grad(0, ops.Mul(share, from_x));
    g.set_input_grad(2, ops.Mul(Take(g, ops, share), from_updates));
  }
  return ops.status();
}

RIVULET_OP("TakeAlongAxis")
    .Input("params: T")
    .Input("indices: Tindices")
    .Output("output: T")
    .Attr("axis: int = 0")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Shape(TakeShape)
    .Gradient(TakeGradient)
    .Doc(
        "output[…, i, …] = params[…, indices[…, i, …], …], with i along the axis. Negative indices count from the end; "
        "one out of range is an error. Our own op, as NumPy's take_along_axis and ONNX's GatherElements.");

RIVULET_OP("ScatterAlongAxis")
    .Input("tensor: T")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output: T")
    .Attr("axis: int = 0")
    .Attr("reduction: {'none', 'add', 'mul', 'max', 'min'} = 'none'")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("Tindices: {int32, int64}")
    .Shape(ScatterShape)
    .Gradient(ScatterGradient)
    .Doc(
        "tensor with updates put, or joined by the reduction, in their order, at […, indices[…, i, …], …]. Negative "
        "indices count from the end; one out of range is an error. Our own op, as ONNX's ScatterElements.");

}  // namespace
}  // namespace rivulet
