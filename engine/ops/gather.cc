// Elements chosen by index, and their way back.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// batch_dims as a number of axes that params and indices share.
StatusOr<int> BatchDims(const AttrMap& attrs, const Shape& params, const Shape& indices, int axis) {
  int64_t batch_dims = std::get<int64_t>(attrs.at("batch_dims"));
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > std::min(indices.rank(), axis))
    return InvalidArgument("batch_dims = {} does not fit indices of {} and axis {}",
                           std::get<int64_t>(attrs.at("batch_dims")), indices.ToString(), axis);
  for (int i = 0; i < batch_dims; ++i)
    if (params.dim(i) != indices.dim(i) && params.dim(i) != kUnknownDim && indices.dim(i) != kUnknownDim)
      return InvalidArgument("params {} and indices {} differ in their first {} axes", params.ToString(),
                             indices.ToString(), batch_dims);
  return static_cast<int>(batch_dims);
}

Status GatherShape(InferenceContext& c) {
  const Shape &params = c.input(0), &indices = c.input(1);
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 2));
  if (params.known_rank() && params.rank() == 0) return InvalidArgument("params is a scalar: nothing to choose from");
  if (!params.known_rank() || !indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (!axis) {
    const int64_t batch_dims = c.attr<int64_t>("batch_dims");
    const int64_t rank =
        params.rank() - 1 + indices.rank() - (batch_dims < 0 ? batch_dims + indices.rank() : batch_dims);
    if (rank < 0) return InvalidArgument("batch_dims = {} is more than there are axes", batch_dims);
    c.set_output(0, Shape(std::vector<int64_t>(static_cast<size_t>(rank), kUnknownDim)));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, params.rank()));
  RIVULET_ASSIGN_OR_RETURN(const int batch_dims, BatchDims(c.attrs(), params, indices, normal));
  std::vector<int64_t> dims(params.dims().begin(), params.dims().begin() + normal);
  for (int i = 0; i < batch_dims; ++i)
    if (params.dim(i) == kUnknownDim) dims[static_cast<size_t>(i)] = indices.dim(i);
  dims.insert(dims.end(), indices.dims().begin() + batch_dims, indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + normal + 1, params.dims().end());
  if (dims.size() > 254) return InvalidArgument("an output of {} dimensions; at most 254 are possible", dims.size());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Output FirstSize(GradientOps& ops, Output params) {
  if (params.shape().known_rank() && params.shape().dim(0) != kUnknownDim) return ops.Int(params.shape().dim(0));
  return ops.Op("StridedSlice", {ops.ShapeOf(params), ops.Ints({0}), ops.Ints({1}), ops.Ints({1})},
                {{"shrink_axis_mask", int64_t{1}}});
}

// Sums the gradient of each choice into its place. Along the first axis that is a segment sum, which ApplyGradients
// knows as a sparse gradient.
Status GatherGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output params = g.input(0), indices = g.input(1);
  const auto axis = ConstantIntegers(g.input(2));
  if (!axis || !params.shape().known_rank() || !indices.shape().known_rank())
    return Unimplemented("the gradient of GatherV2 with an axis or ranks that are unknown when it is built");
  RIVULET_ASSIGN_OR_RETURN(const int chosen, NormalizeAxis(axis->front(), params.shape().rank()));
  if (chosen == 0) {
    g.set_input_grad(0, ops.Op("UnsortedSegmentSum", {g.grad(), indices, FirstSize(ops, params)}));
    return ops.status();
  }
  g.set_input_grad(0, ops.Op("GatherGrad", {g.grad(), indices, ops.ShapeOf(params)},
                             {{"axis", int64_t{chosen}}, {"batch_dims", g.node()->attr<int64_t>("batch_dims")}}));
  return ops.status();
}

// Along the first axis.
Status GatherV1Shape(InferenceContext& c) {
  const Shape &params = c.input(0), &indices = c.input(1);
  if (!params.known_rank() || !indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (params.rank() == 0) return InvalidArgument("params is a scalar: nothing to choose from");
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + 1, params.dims().end());
  if (dims.size() > 254) return InvalidArgument("an output of {} dimensions; at most 254 are possible", dims.size());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status GatherV1Gradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("UnsortedSegmentSum", {g.grad(), g.input(1), FirstSize(ops, g.input(0))}));
  return ops.status();
}

Status GatherGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape params, ShapeFromInput(c, 2));
  const Shape& indices = c.input(1);
  if (params.known_rank() && indices.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), params.rank()));
    RIVULET_ASSIGN_OR_RETURN(const int batch_dims, BatchDims(c.attrs(), params, indices, axis));
    std::vector<int64_t> dims(params.dims().begin(), params.dims().begin() + axis);
    dims.insert(dims.end(), indices.dims().begin() + batch_dims, indices.dims().end());
    dims.insert(dims.end(), params.dims().begin() + axis + 1, params.dims().end());
    if (!Shape::Compatible(c.input(0), Shape(std::move(dims))))
      return InvalidArgument("dy {} does not have the shape that indices {} choose from {}", c.input(0).ToString(),
                             indices.ToString(), params.ToString());
  }
  c.set_output(0, std::move(params));
  return absl::OkStatus();
}

Status GatherGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("GatherV2", {g.grad(), g.input(1), ops.Int(g.node()->attr<int64_t>("axis"))},
                             {{"batch_dims", g.node()->attr<int64_t>("batch_dims")}}));
  return ops.status();
}

Status OneHotShape(InferenceContext& c) {
  const Shape& indices = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto depth, KnownInteger(c, 1));
  if (depth && *depth < 0) return InvalidArgument("depth is {}, below 0", *depth);
  for (int i : {2, 3})
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("on_value and off_value must be scalars, but input {} has shape {}", i,
                             c.input(i).ToString());
  if (!indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), indices.rank() + 1));
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.begin() + axis, depth ? *depth : kUnknownDim);
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// The first axis is one longer than the largest index.
Status StitchShape(InferenceContext& c) {
  const int count = c.num_inputs() / 2;
  int64_t size = 0;
  Shape rest = Shape::UnknownRank();
  for (int i = 0; i < count; ++i) {
    const Shape &indices = c.input(i), &data = c.input(count + i);
    const Tensor* value = c.input_value(i);
    if (value == nullptr) size = kUnknownDim;
    if (value != nullptr && size != kUnknownDim) {
      for (int32_t index : value->flat<int32_t>()) {
        if (index < 0) return InvalidArgument("indices {} hold {}, below 0", i, index);
        size = std::max<int64_t>(size, int64_t{index} + 1);
      }
    }
    if (!indices.known_rank() || !data.known_rank()) continue;
    const bool prefix =
        indices.rank() <= data.rank() &&
        Shape::Compatible(indices,
                          Shape(std::vector<int64_t>(data.dims().begin(), data.dims().begin() + indices.rank())));
    if (!prefix)
      return InvalidArgument("data {} of shape {} must begin with the shape of its indices, {}", i, data.ToString(),
                             indices.ToString());
    auto merged =
        Shape::Merge(rest, Shape(std::vector<int64_t>(data.dims().begin() + indices.rank(), data.dims().end())));
    if (!merged.ok())
      return InvalidArgument("data {} of shape {} has other elements than those before it", i, data.ToString());
    rest = *std::move(merged);
  }
  if (rest.known_rank()) {
    std::vector<int64_t> dims = {size};
    dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
    rest = Shape(std::move(dims));
  }
  c.set_output(0, std::move(rest));
  return absl::OkStatus();
}

// A row that another row has overwritten gets that one's gradient, as in TensorFlow.
Status StitchGradient(GradientContext& g) {
  GradientOps ops(g);
  const int count = static_cast<int>(g.node()->inputs().size()) / 2;
  for (int i = 0; i < count; ++i) g.set_input_grad(count + i, ops.Op("GatherV2", {g.grad(), g.input(i), ops.Int(0)}));
  return ops.status();
}

RIVULET_OP("GatherV2")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Input("axis: Taxis")
    .Output("output: Tparams")
    .Attr("batch_dims: int = 0")
    .Attr("Tparams: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(GatherShape)
    .Gradient(GatherGradient)
    .Doc("The slices of params along an axis that indices name. An index out of range is an error.");

RIVULET_OP("Gather")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("validate_indices: bool = true")
    .Attr("Tparams: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Shape(GatherV1Shape)
    .Gradient(GatherV1Gradient)
    .Doc(
        "The slices of params along its first axis that indices name, as old graphs have it. Indices are always "
        "checked.");

RIVULET_OP("GatherGrad")
    .Input("dy: T")
    .Input("indices: Tindices")
    .Input("params_shape: Tshape")
    .Output("output: T")
    .Attr("axis: int")
    .Attr("batch_dims: int = 0")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Tindices: {int32, int64}")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(GatherGradShape)
    .Gradient(GatherGradGradient)
    .Doc(
        "The gradient of GatherV2 by params, of the given shape: dy summed, in order, where it was chosen. Our own "
        "op.");

RIVULET_OP("OneHot")
    .Input("indices: TI")
    .Input("depth: int32")
    .Input("on_value: T")
    .Input("off_value: T")
    .Output("output: T")
    .Attr("axis: int = -1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("TI: {uint8, int8, int32, int64} = DT_INT64")
    .Shape(OneHotShape)
    .NotDifferentiable("TensorFlow defines no gradient by on_value and off_value")
    .Doc("on_value at each index along a new axis of size depth, off_value elsewhere; an index outside marks nothing.");

RIVULET_OP("DynamicStitch")
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(StitchShape)
    .Gradient(StitchGradient)
    .Doc(
        "merged[indices[m][i]] = data[m][i]; the last wins. A program must know the indices when it is compiled, a "
        "session need not.");

}  // namespace
}  // namespace rivulet
