// Sparse matrices as lists of places and values, and rows chosen and joined at once.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status SparseToDenseShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 1));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {3}));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// The value of each place back; the default's is everything else.
Status SparseToDenseGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output indices = g.input(0), values = g.input(2);
  if (!indices.shape().known_rank() || indices.shape().rank() != 2)
    return Unimplemented("the gradient of SparseToDense with places that are not [count, axes]");
  const Output chosen = ops.Op("GatherNd", {g.grad(), indices});
  g.set_input_grad(2, ops.SumTo(chosen, values));
  if (g.wants(3)) {
    const Output everything = ops.Op("Range", {ops.Int(0), ops.Op("Rank", {g.grad()}), ops.Int(1)});
    const Output all = ops.Sum(g.grad(), everything, /*keep_dims=*/false);
    g.set_input_grad(3, ops.Sub(all, ops.Sum(chosen, ops.Ints({0}), /*keep_dims=*/false)));
  }
  return ops.status();
}

Status SparseProductShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(0, 2).status());
  RIVULET_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RIVULET_ASSIGN_OR_RETURN(const Shape b, c.WithRank(3, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape a, ShapeFromInput(c, 2));
  if (a.known_rank() && a.rank() != 2) return InvalidArgument("a_shape is {}, not that of a matrix", a.ToString());
  const bool adjoint_a = c.attr<bool>("adjoint_a"), adjoint_b = c.attr<bool>("adjoint_b");
  const int64_t rows = a.known_rank() ? a.dim(adjoint_a ? 1 : 0) : kUnknownDim;
  const int64_t inner = a.known_rank() ? a.dim(adjoint_a ? 0 : 1) : kUnknownDim;
  if (!Shape::Compatible(Shape({inner}), Shape({b.dim(adjoint_b ? 1 : 0)})))
    return InvalidArgument("a {} and b {} do not fit as factors", a.ToString(), b.ToString());
  c.set_output(0, Shape({rows, b.dim(adjoint_b ? 0 : 1)}));
  return absl::OkStatus();
}

// By b: Aᵀ dC. By a value at (i, j): row i of dC with row j of b.
Status SparseProductGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output indices = g.input(0), values = g.input(1), shape = g.input(2), b = g.input(3);
  const bool adjoint_a = g.node()->attr<bool>("adjoint_a"), adjoint_b = g.node()->attr<bool>("adjoint_b");
  const Output by_b = ops.Op("SparseTensorDenseMatMul", {indices, values, shape, g.grad()},
                             {{"adjoint_a", !adjoint_a}, {"adjoint_b", false}});
  const auto transposed = [&](Output x) { return ops.Op("Transpose", {x, ops.Ints({1, 0})}); };
  g.set_input_grad(3, adjoint_b ? transposed(by_b) : by_b);
  Node* places = ops.AddNode("Unpack", {indices}, {{"num", int64_t{2}}, {"axis", int64_t{1}}});
  if (places == nullptr) return ops.status();
  const Output rows = places->output(adjoint_a ? 1 : 0), columns = places->output(adjoint_a ? 0 : 1);
  const Output of_product = ops.Op("GatherV2", {g.grad(), rows, ops.Int(0)});
  const Output of_b = ops.Op("GatherV2", {adjoint_b ? transposed(b) : b, columns, ops.Int(0)});
  g.set_input_grad(1, ops.Sum(ops.Mul(of_product, of_b), ops.Ints({1}), /*keep_dims=*/false));
  return ops.status();
}

// How many segments ids, which ascend, name: known where they are.
StatusOr<int64_t> SegmentCount(const InferenceContext& c, int i) {
  RIVULET_ASSIGN_OR_RETURN(const auto ids, KnownIntegers(c, i));
  if (!ids) return kUnknownDim;
  if (!std::is_sorted(ids->begin(), ids->end()) || (!ids->empty() && ids->front() < 0))
    return InvalidArgument("segment_ids do not ascend from 0 on");
  if (ids->empty()) return 0;
  return AddDims(ids->back(), 1);
}

StatusOr<Shape> SegmentRows(const InferenceContext& c, int ids) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, SegmentCount(c, ids));
  const Shape& data = c.input(0);
  if (!data.known_rank()) return Shape::UnknownRank();
  if (data.rank() == 0) return InvalidArgument("a scalar has no rows");
  Shape rows = data;
  rows.set_dim(0, count);
  return rows;
}

Status SortedSegmentShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RIVULET_ASSIGN_OR_RETURN(Shape rows, SegmentRows(c, 1));
  c.set_output(0, std::move(rows));
  return absl::OkStatus();
}

Status SparseSegmentShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RIVULET_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  RIVULET_ASSIGN_OR_RETURN(Shape rows, SegmentRows(c, 2));
  c.set_output(0, std::move(rows));
  return absl::OkStatus();
}

// The rows of `per_row`, one number each, as a factor of rows like those of `x`.
Output AsColumn(GradientOps& ops, Output per_row, Output x) {
  for (int axis = 1; axis < x.shape().rank(); ++axis) per_row = ops.Op("ExpandDims", {per_row, ops.Int(-1)});
  return per_row;
}

// How many rows each segment has, in the type of `x`; at least 1.
Output SegmentSizes(GradientOps& ops, Output ids, Output x, Output segments) {
  const Output ones = ops.Op("Cast", {ops.Op("OnesLike", {ids})}, {{"DstT", x.dtype()}});
  const Output sizes = ops.Op("UnsortedSegmentSum", {ones, ids, segments});
  return ops.Op("Maximum", {sizes, ops.Scalar(x.dtype(), 1)});
}

// The gradient of each segment, distributed as the op summed.
Output ShareOfRows(GradientContext& g, GradientOps& ops, Output ids) {
  const std::string_view op = g.node()->type();
  if (!op.ends_with("Mean") && !op.ends_with("SqrtN")) return g.grad();
  const Output rows =
      ops.Op("StridedSlice", {ops.Op("Shape", {g.output(0)}), ops.Ints({0}), ops.Ints({1}), ops.Ints({1})},
             {{"shrink_axis_mask", int64_t{1}}});
  const Output sizes = SegmentSizes(ops, ids, g.grad(), rows);
  const Output by = op.ends_with("Mean") ? sizes : ops.Op("Sqrt", {sizes});
  return ops.Div(g.grad(), AsColumn(ops, by, g.grad()));
}

Status SortedSegmentGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output ids = g.input(1);
  if (!g.input(0).shape().known_rank()) return Unimplemented("the gradient of a segment op of unknown rank");
  g.set_input_grad(0, ops.Op("GatherV2", {ShareOfRows(g, ops, ids), ids, ops.Int(0)}));
  return ops.status();
}

// Rows that tie for the extreme of their segment share its gradient equally.
Status SortedExtremeGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output data = g.input(0), ids = g.input(1);
  const Output of_row = ops.Op("GatherV2", {g.output(0), ids, ops.Int(0)});
  const Output chosen = ops.Op("Cast", {ops.Op("Equal", {data, of_row})}, {{"DstT", data.dtype()}});
  const Output ties = ops.Op("SegmentSum", {chosen, ids});
  g.set_input_grad(0, ops.Mul(chosen, ops.Op("GatherV2", {ops.Op("DivNoNan", {g.grad(), ties}), ids, ops.Int(0)})));
  return ops.status();
}

Status SparseSegmentGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output data = g.input(0), indices = g.input(1), ids = g.input(2);
  if (!data.shape().known_rank()) return Unimplemented("the gradient of a segment op of unknown rank");
  const Output of_rows = ops.Op("GatherV2", {ShareOfRows(g, ops, ids), ids, ops.Int(0)});
  const Output rows = ops.Op("StridedSlice", {ops.ShapeOf(data), ops.Ints({0}), ops.Ints({1}), ops.Ints({1})},
                             {{"shrink_axis_mask", int64_t{1}}});
  g.set_input_grad(0, ops.Op("UnsortedSegmentSum", {of_rows, indices, rows}));
  return ops.status();
}

Status SparseSoftmaxShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape indices, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape values, c.WithRank(1, 1));
  RIVULET_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  if (!Shape::Compatible(Shape({indices.dim(0)}), values))
    return InvalidArgument("{} places for {} values", indices.dim(0), values.dim(0));
  c.set_output(0, values);
  return absl::OkStatus();
}

RIVULET_OP("SparseToDense")
    .Input("sparse_indices: Tindices")
    .Input("output_shape: Tindices")
    .Input("sparse_values: T")
    .Input("default_value: T")
    .Output("dense: T")
    .Attr("validate_indices: bool = true")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tindices: {int32, int64}")
    .Shape(SparseToDenseShape)
    .Gradient(SparseToDenseGradient)
    .Doc("default_value everywhere, and the values at their places, which are vectors of indices.");

RIVULET_OP("SparseTensorDenseMatMul")
    .Input("a_indices: Tindices")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b: T")
    .Output("product: T")
    .Attr("T: {float, double, int32, int64}")
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .Attr("adjoint_a: bool = false")
    .Attr("adjoint_b: bool = false")
    .Shape(SparseProductShape)
    .Gradient(SparseProductGradient)
    .Doc("The product of a sparse matrix, of places and values, with a dense one; each may be transposed.");

#define RIVULET_SORTED_SEGMENT_OP(name)                         \
  RIVULET_OP(name)                                              \
      .Input("data: T")                                         \
      .Input("segment_ids: Tindices")                           \
      .Output("output: T")                                      \
      .Attr("T: {half, bfloat16, float, double, int32, int64}") \
      .Attr("Tindices: {int32, int64}")                         \
      .Shape(SortedSegmentShape)
#define RIVULET_SEGMENT_SIZE " A program must know segment_ids, which ascend, when it is compiled; a session need not."
RIVULET_SORTED_SEGMENT_OP("SegmentSum")
    .Gradient(SortedSegmentGradient)
    .Doc("The sum of the rows of each segment." RIVULET_SEGMENT_SIZE);
RIVULET_SORTED_SEGMENT_OP("SegmentMean")
    .Gradient(SortedSegmentGradient)
    .Doc("The mean of the rows of each segment; 0 of an empty one." RIVULET_SEGMENT_SIZE);
RIVULET_SORTED_SEGMENT_OP("SegmentMax")
    .Gradient(SortedExtremeGradient)
    .Doc("The largest elements of each segment; 0 of an empty one." RIVULET_SEGMENT_SIZE);
RIVULET_SORTED_SEGMENT_OP("SegmentMin")
    .Gradient(SortedExtremeGradient)
    .Doc("The smallest elements of each segment; 0 of an empty one." RIVULET_SEGMENT_SIZE);
RIVULET_SORTED_SEGMENT_OP("SegmentProd")
    .NotDifferentiable("TensorFlow defines none")
    .Doc("The product of the rows of each segment; 1 of an empty one." RIVULET_SEGMENT_SIZE);

#define RIVULET_SPARSE_SEGMENT_OP(name)               \
  RIVULET_OP(name)                                    \
      .Input("data: T")                               \
      .Input("indices: Tidx")                         \
      .Input("segment_ids: Tsegmentids")              \
      .Output("output: T")                            \
      .Attr("T: floattype")                           \
      .Attr("Tidx: {int32, int64} = DT_INT32")        \
      .Attr("Tsegmentids: {int32, int64} = DT_INT32") \
      .Attr("sparse_gradient: bool = false")          \
      .Shape(SparseSegmentShape)                      \
      .Gradient(SparseSegmentGradient)
RIVULET_SPARSE_SEGMENT_OP("SparseSegmentSum").Doc("SegmentSum of the rows that indices choose." RIVULET_SEGMENT_SIZE);
RIVULET_SPARSE_SEGMENT_OP("SparseSegmentMean").Doc("SegmentMean of the rows that indices choose." RIVULET_SEGMENT_SIZE);
RIVULET_SPARSE_SEGMENT_OP("SparseSegmentSqrtN")
    .Doc("SegmentSum of the rows that indices choose, over the square root of their number." RIVULET_SEGMENT_SIZE);

RIVULET_OP("SparseSoftmax")
    .Input("sp_indices: int64")
    .Input("sp_values: T")
    .Input("sp_shape: int64")
    .Output("output: T")
    .Attr("T: {float, double}")
    .Shape(SparseSoftmaxShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("The softmax of the values of each row, of a sparse tensor in the usual order.");

}  // namespace
}  // namespace rivulet
