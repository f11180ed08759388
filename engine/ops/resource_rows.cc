// Rows of a variable: read, changed, and moved against a sparse gradient, without touching the others.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// indices […] and what belongs to each row of the variable: […, row…].
StatusOr<Shape> RowsShape(const Shape& variable, const Shape& indices) {
  if (!variable.known_rank() || !indices.known_rank()) return Shape::UnknownRank();
  if (variable.rank() == 0) return InvalidArgument("a scalar variable has no rows");
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), variable.dims().begin() + 1, variable.dims().end());
  if (dims.size() > 254) return InvalidArgument("rows of {} dimensions; at most 254 are possible", dims.size());
  return Shape(std::move(dims));
}

Status RowGatherShape(InferenceContext& c) {
  if (c.attr<int64_t>("batch_dims") != 0)
    return Unimplemented("batch_dims = {} of a variable; read it and use GatherV2", c.attr<int64_t>("batch_dims"));
  RIVULET_ASSIGN_OR_RETURN(Shape rows, RowsShape(c.input(0), c.input(1)));
  c.set_output(0, std::move(rows));
  return absl::OkStatus();
}

Status CheckRows(const InferenceContext& c, int indices, int values) {
  RIVULET_ASSIGN_OR_RETURN(const Shape rows, RowsShape(c.input(0), c.input(indices)));
  if (!Shape::Compatible(rows, c.input(values)))
    return InvalidArgument("values of {} do not fit the rows {} that indices {} name in a variable of {}",
                           c.input(values).ToString(), rows.ToString(), c.input(indices).ToString(),
                           c.input(0).ToString());
  return absl::OkStatus();
}

Status RowScatterShape(InferenceContext& c) { return CheckRows(c, 1, 2); }

Status SparseDescentShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  return CheckRows(c, 3, 2);
}

Status CheckSlot(const InferenceContext& c) {
  if (!Shape::Compatible(c.input(0), c.input(1)))
    return InvalidArgument("accum of {} does not fit the variable's {}", c.input(1).ToString(), c.input(0).ToString());
  return absl::OkStatus();
}

Status SparseAdagradShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSlot(c));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2}));
  return CheckRows(c, 4, 3);
}

Status SparseAdagradV2Shape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSlot(c));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2, 3}));
  return CheckRows(c, 5, 4);
}

Status SparseMomentumShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSlot(c));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2, 5}));
  return CheckRows(c, 4, 3);
}

RIVULET_OP("ResourceGather")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Output("output: dtype")
    .Attr("batch_dims: int = 0")
    .Attr("validate_indices: bool = true")
    .Attr("dtype: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Shape(RowGatherShape)
    .Gradient(NoGradient)
    .Doc(
        "The rows of a variable that indices name: an embedding. An index out of range is an error. The gradient by "
        "the variable is sparse (gradients/indexed_slices.h).");

#define RIVULET_RESOURCE_SCATTER_OP(name, types) \
  RIVULET_OP(name)                               \
      .Input("resource: resource")               \
      .Input("indices: Tindices")                \
      .Input("updates: dtype")                   \
      .Attr("dtype: " types)                     \
      .Attr("Tindices: {int32, int64}")          \
      .Stateful()                                \
      .Shape(RowScatterShape)                    \
      .NotDifferentiable("it has an effect and no output")

#define RIVULET_SCATTER_NUMBERS "{half, bfloat16, float, double, int32, int64}"

RIVULET_RESOURCE_SCATTER_OP("ResourceScatterUpdate", RIVULET_ANY_TYPE)
    .Doc("Replaces the variable's rows that indices name by updates; of several for one row the last stays.");
RIVULET_RESOURCE_SCATTER_OP("ResourceScatterAdd", RIVULET_SCATTER_NUMBERS)
    .Doc("Adds updates, in their order, to the variable's rows that indices name.");
RIVULET_RESOURCE_SCATTER_OP("ResourceScatterSub", RIVULET_SCATTER_NUMBERS)
    .Doc("Subtracts updates, in their order, from the variable's rows that indices name.");
RIVULET_RESOURCE_SCATTER_OP("ResourceScatterMul", RIVULET_SCATTER_NUMBERS)
    .Doc("Multiplies the variable's rows that indices name by updates.");
RIVULET_RESOURCE_SCATTER_OP("ResourceScatterMax", RIVULET_SCATTER_NUMBERS)
    .Doc("Raises the variable's rows that indices name to updates, where these are larger.");
RIVULET_RESOURCE_SCATTER_OP("ResourceScatterMin", RIVULET_SCATTER_NUMBERS)
    .Doc("Lowers the variable's rows that indices name to updates, where these are smaller.");

RIVULET_OP("ResourceSparseApplyGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("grad: T")
    .Input("indices: Tindices")
    .Attr("T: floattype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(SparseDescentShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "var[row] -= alpha * (the sum of the gradients of that row, in their order), for each row that indices name: "
        "the bits of ResourceApplyGradientDescent with the dense gradient. Negative indices name no row. Our own op.");

RIVULET_OP("ResourceSparseApplyAdagrad")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Input("indices: Tindices")
    .Attr("T: floattype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(SparseAdagradShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum += grad²; var -= lr * grad / √accum, for each row that indices name, with the gradients of one row "
        "summed.");

RIVULET_OP("ResourceSparseApplyAdagradV2")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Input("indices: Tindices")
    .Attr("T: floattype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(SparseAdagradV2Shape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum += grad²; var -= lr * grad / (√accum + epsilon), for each row that indices name, with the gradients of "
        "one row summed.");

RIVULET_OP("ResourceSparseApplyMomentum")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Input("indices: Tindices")
    .Input("momentum: T")
    .Attr("T: floattype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(SparseMomentumShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum = momentum * accum + grad; var -= lr * accum (with use_nesterov, lr * (grad + momentum * accum)), for "
        "each row that indices name, with the gradients of one row summed. The accumulators of other rows do not "
        "decay.");

}  // namespace
}  // namespace rivulet
