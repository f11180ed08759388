// Slices chosen by index vectors, and their way back.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// indices [batch…, depth] choose slices of a tensor: [batch…] followed by the tensor's axes from depth on. UnknownRank
// where that is not known yet.
StatusOr<Shape> ChosenSlices(const Shape& tensor, const Shape& indices) {
  if (indices.known_rank() && indices.rank() == 0) return InvalidArgument("indices must have at least one axis");
  if (!tensor.known_rank() || !indices.known_rank()) return Shape::UnknownRank();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth == kUnknownDim) return Shape::UnknownRank();
  if (depth > tensor.rank())
    return InvalidArgument("indices of {} name {} axes, but the tensor {} has {}", indices.ToString(), depth,
                           tensor.ToString(), tensor.rank());
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), tensor.dims().begin() + depth, tensor.dims().end());
  if (dims.size() > 254) return InvalidArgument("an output of {} dimensions; at most 254 are possible", dims.size());
  return Shape(std::move(dims));
}

Status GatherNdShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape chosen, ChosenSlices(c.input(0), c.input(1)));
  c.set_output(0, std::move(chosen));
  return absl::OkStatus();
}

Status CheckUpdates(const Shape& tensor, const Shape& indices, const Shape& updates) {
  RIVULET_ASSIGN_OR_RETURN(const Shape chosen, ChosenSlices(tensor, indices));
  if (!Shape::Compatible(chosen, updates))
    return InvalidArgument("updates of {} do not fit the slices {} that indices {} choose from {}", updates.ToString(),
                           chosen.ToString(), indices.ToString(), tensor.ToString());
  return absl::OkStatus();
}

Status ScatterNdShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 2));
  RIVULET_RETURN_IF_ERROR(CheckUpdates(shape, c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status TensorScatterShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckUpdates(c.input(0), c.input(1), c.input(2)));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status GatherNdGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output shape = g.input(1).dtype() == DType::kInt64
                           ? ops.Op("Cast", {ops.ShapeOf(g.input(0))}, {{"DstT", DType::kInt64}})
                           : ops.ShapeOf(g.input(0));
  g.set_input_grad(0, ops.Op("ScatterNd", {g.input(1), g.grad(), shape}));
  return ops.status();
}

Status ScatterNdGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(1, ops.Op("GatherNd", {g.grad(), g.input(0)}));
  return ops.status();
}

Status ScatterUpdateGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output indices = g.input(1);
  g.set_input_grad(0, ops.Op("TensorScatterUpdate", {g.grad(), indices, ops.ZerosLike(g.input(2))}));
  g.set_input_grad(2, ops.Op("GatherNd", {g.grad(), indices}));
  return ops.status();
}

Status ScatterAddGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, g.grad());
  g.set_input_grad(2, ops.Op("GatherNd", {g.grad(), g.input(1)}));
  return ops.status();
}

Status ScatterSubGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, g.grad());
  g.set_input_grad(2, ops.Neg(ops.Op("GatherNd", {g.grad(), g.input(1)})));
  return ops.status();
}

// Elements tied for the extreme share the gradient equally.
Status ScatterExtremeGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), indices = g.input(1), updates = g.input(2), y = g.output(0);
  const auto equal = [&](Output a, Output b) {
    return ops.Op("Cast", {ops.Op("Equal", {a, b})}, {{"DstT", x.dtype()}});
  };
  const Output from_x = equal(x, y), from_updates = equal(updates, ops.Op("GatherNd", {y, indices}));
  const Output count = ops.Op("TensorScatterAdd", {from_x, indices, from_updates});
  const Output share = ops.Div(g.grad(), count);
  g.set_input_grad(0, ops.Mul(share, from_x));
  g.set_input_grad(2, ops.Mul(ops.Op("GatherNd", {share, indices}), from_updates));
  return ops.status();
}

RIVULET_OP("GatherNd")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("Tparams: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Shape(GatherNdShape)
    .Gradient(GatherNdGradient)
    .Doc("The slices params[indices[i, …, :]]. An index out of range is an error.");

RIVULET_OP("ScatterNd")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Input("shape: Tindices")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("Tindices: {int32, int64}")
    .Shape(ScatterNdShape)
    .Gradient(ScatterNdGradient)
    .Doc("Zeros of the given shape with updates added, in their order, at the slices that indices name.");

#define RIVULET_TENSOR_SCATTER_OP(name, types) \
  RIVULET_OP(name)                             \
      .Input("tensor: T")                      \
      .Input("indices: Tindices")              \
      .Input("updates: T")                     \
      .Output("output: T")                     \
      .Attr("T: " types)                       \
      .Attr("Tindices: {int32, int64}")        \
      .Shape(TensorScatterShape)

#define RIVULET_SCATTER_NUMBERS "{half, bfloat16, float, double, int32, int64}"

RIVULET_TENSOR_SCATTER_OP("TensorScatterUpdate", RIVULET_ANY_TYPE)
    .Gradient(ScatterUpdateGradient)
    .Doc("tensor with the slices that indices name replaced by updates; of several for one place the last stays.");
RIVULET_TENSOR_SCATTER_OP("TensorScatterAdd", RIVULET_SCATTER_NUMBERS)
    .Gradient(ScatterAddGradient)
    .Doc("tensor with updates added, in their order, at the slices that indices name.");
RIVULET_TENSOR_SCATTER_OP("TensorScatterSub", RIVULET_SCATTER_NUMBERS)
    .Gradient(ScatterSubGradient)
    .Doc("tensor with updates subtracted, in their order, at the slices that indices name.");
RIVULET_TENSOR_SCATTER_OP("TensorScatterMul", RIVULET_SCATTER_NUMBERS)
    .NotDifferentiable("a product with zeros among its factors has no simple gradient")
    .Doc("tensor with the slices that indices name multiplied by updates. Our own op.");
RIVULET_TENSOR_SCATTER_OP("TensorScatterMax", RIVULET_SCATTER_NUMBERS)
    .Gradient(ScatterExtremeGradient)
    .Doc("tensor with the larger of itself and updates at the slices that indices name.");
RIVULET_TENSOR_SCATTER_OP("TensorScatterMin", RIVULET_SCATTER_NUMBERS)
    .Gradient(ScatterExtremeGradient)
    .Doc("tensor with the smaller of itself and updates at the slices that indices name.");

}  // namespace
}  // namespace rivulet
