// Matrix products.
#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status MatMulShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape a, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape b, c.WithRank(1, 2));
  const bool transpose_a = c.attr<bool>("transpose_a"), transpose_b = c.attr<bool>("transpose_b");
  const int64_t inner_a = a.dim(transpose_a ? 0 : 1), inner_b = b.dim(transpose_b ? 1 : 0);
  if (inner_a != kUnknownDim && inner_b != kUnknownDim && inner_a != inner_b) {
    const char* hint =
        b.dim(transpose_b ? 0 : 1) == inner_a
            ? (transpose_b ? "; did you mean transpose_b = false?" : "; did you mean transpose_b = true?")
        : a.dim(transpose_a ? 1 : 0) == inner_b
            ? (transpose_a ? "; did you mean transpose_a = false?" : "; did you mean transpose_a = true?")
            : "";
    return InvalidArgument("{} of a {} and {} of b {} differ: {} and {}{}", transpose_a ? "rows" : "columns",
                           a.ToString(), transpose_b ? "columns" : "rows", b.ToString(), inner_a, inner_b, hint);
  }
  c.set_output(0, Shape({a.dim(transpose_a ? 1 : 0), b.dim(transpose_b ? 0 : 1)}));
  return absl::OkStatus();
}

// With op(A) the matrix or its transpose: d/dop(A) = G op(B)^T and d/dop(B) = op(A)^T G, transposed back where op does.
struct Names {
  const char* op;
  const char* transpose_x;
  const char* transpose_y;
};

Output Product(GradientOps& ops, const Names& names, Output a, Output b, bool transpose_a, bool transpose_b) {
  return ops.Op(names.op, {a, b}, {{names.transpose_x, transpose_a}, {names.transpose_y, transpose_b}});
}

std::pair<Output, Output> ProductGradients(GradientContext& g, GradientOps& ops, const Names& names) {
  const Output a = g.input(0), b = g.input(1), grad = g.grad();
  const bool ta = g.node()->attr<bool>(names.transpose_x), tb = g.node()->attr<bool>(names.transpose_y);
  return {ta ? Product(ops, names, b, grad, tb, true) : Product(ops, names, grad, b, false, !tb),
          tb ? Product(ops, names, grad, a, true, ta) : Product(ops, names, a, grad, !ta, false)};
}

Status MatMulGradient(GradientContext& g) {
  GradientOps ops(g);
  const auto [a_grad, b_grad] = ProductGradients(g, ops, {"MatMul", "transpose_a", "transpose_b"});
  g.set_input_grad(0, a_grad);
  g.set_input_grad(1, b_grad);
  return ops.status();
}

Status FusedMatMulShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(MatMulShape(c));
  const Shape b = c.input(1);
  const int64_t columns = b.known_rank() ? b.dim(c.attr<bool>("transpose_b") ? 0 : 1) : kUnknownDim;
  for (int i = 2; i < c.num_inputs(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(i, 1));
    if (columns != kUnknownDim && bias.dim(0) != kUnknownDim && bias.dim(0) != columns)
      return InvalidArgument("the product has {} columns, but the bias has {}", columns, bias.dim(0));
  }
  return absl::OkStatus();
}

Status BatchMatMulShape(InferenceContext& c) {
  const Shape &x = c.input(0), &y = c.input(1);
  if (!x.known_rank() || !y.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (x.rank() < 2 || y.rank() < 2)
    return InvalidArgument("x {} and y {} must have at least two axes", x.ToString(), y.ToString());
  const bool adj_x = c.attr<bool>("adj_x"), adj_y = c.attr<bool>("adj_y");
  const int64_t inner_x = x.dim(x.rank() - (adj_x ? 2 : 1)), inner_y = y.dim(y.rank() - (adj_y ? 1 : 2));
  if (inner_x != kUnknownDim && inner_y != kUnknownDim && inner_x != inner_y)
    return InvalidArgument("{} of x {} and {} of y {} differ: {} and {}", adj_x ? "rows" : "columns", x.ToString(),
                           adj_y ? "columns" : "rows", y.ToString(), inner_x, inner_y);
  RIVULET_ASSIGN_OR_RETURN(const Shape batch,
                           Shape::Broadcast(Shape(std::vector<int64_t>(x.dims().begin(), x.dims().end() - 2)),
                                            Shape(std::vector<int64_t>(y.dims().begin(), y.dims().end() - 2))));
  std::vector<int64_t> dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(x.dim(x.rank() - (adj_x ? 1 : 2)));
  dims.push_back(y.dim(y.rank() - (adj_y ? 2 : 1)));
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// Without broadcasting.
Status BatchMatMulV1Shape(InferenceContext& c) {
  const Shape &x = c.input(0), &y = c.input(1);
  if (x.known_rank() && y.known_rank() && x.rank() >= 2 && y.rank() >= 2 &&
      !Shape::Compatible(Shape(std::vector<int64_t>(x.dims().begin(), x.dims().end() - 2)),
                         Shape(std::vector<int64_t>(y.dims().begin(), y.dims().end() - 2))))
    return InvalidArgument("x {} and y {} differ in the axes before the matrices; BatchMatMulV2 broadcasts them",
                           x.ToString(), y.ToString());
  return BatchMatMulShape(c);
}

// The rows of all matrices as one matrix: [-1, columns].
Output AllRows(GradientOps& ops, Output x) {
  return ops.Op("Reshape", {x, ops.Ints({-1, x.shape().dim(x.shape().rank() - 1)})});
}

Status BatchMatMulGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), y = g.input(1), grad = g.grad();
  // A single matrix y meets all rows of x: its gradient is one product, not a sum of many.
  if (!g.node()->attr<bool>("adj_x") && x.shape().known_rank() && y.shape().known_rank() && y.shape().rank() == 2 &&
      y.shape().IsFullyKnown()) {
    const bool adj_y = g.node()->attr<bool>("adj_y");
    const Shape& sizes = y.shape();
    if (x.shape().dim(x.shape().rank() - 1) == sizes.dim(adj_y ? 1 : 0) && grad.shape().known_rank() &&
        grad.shape().dim(grad.shape().rank() - 1) == sizes.dim(adj_y ? 0 : 1)) {
      g.set_input_grad(0, Product(ops, {"BatchMatMulV2", "adj_x", "adj_y"}, grad, y, false, !adj_y));
      const Output rows = AllRows(ops, x), row_grads = AllRows(ops, grad);
      g.set_input_grad(1, adj_y ? ops.Op("MatMul", {row_grads, rows}, {{"transpose_a", true}})
                                : ops.Op("MatMul", {rows, row_grads}, {{"transpose_a", true}}));
      return ops.status();
    }
  }
  const auto [x_grad, y_grad] = ProductGradients(g, ops, {"BatchMatMulV2", "adj_x", "adj_y"});
  g.set_input_grad(0, ops.SumTo(x_grad, g.input(0)));
  g.set_input_grad(1, ops.SumTo(y_grad, g.input(1)));
  return ops.status();
}

// A product that contracts the examples: addend i is a_iᵀ · g_i over the positions of example i.
ExampleSumResult MatMulExamples(ExampleSumContext& c) {
  ExampleOps& ops = c.ops();
  const int inner_a = c.node().attr<bool>("transpose_a") ? 0 : 1, inner_b = c.node().attr<bool>("transpose_b") ? 1 : 0;
  auto a_at = c.axis(0), b_at = c.axis(1);
  // An operand that depends on no example has its rows by position all the same.
  if (!a_at && b_at && ops.layouts().Of(c.input(0)).none()) a_at = ExampleAxis{inner_a, b_at->outer, b_at->inner};
  if (!b_at && a_at && ops.layouts().Of(c.input(1)).none()) b_at = ExampleAxis{inner_b, a_at->outer, a_at->inner};
  if (!a_at || !b_at || a_at->axis != inner_a || b_at->axis != inner_b || a_at->outer != b_at->outer ||
      a_at->inner != b_at->inner) {
    return c.Refuse();
  }
  const ExampleSum::Outer outer{ops.Positions(c.input(0), *a_at), ops.Positions(c.input(1), *b_at)};
  RIVULET_RETURN_IF_ERROR(ops.scope().status());
  // The factors go to the smaller operand.
  const int weighed = c.input(0).shape().elements() < c.input(1).shape().elements() ? 0 : 1;
  return OuterSum(ops, c.sum().shape(), outer, [c, weighed, at = weighed == 0 ? *a_at : *b_at](Output factors) {
    return c.With(weighed, c.ops().Weigh(c.input(weighed), at, factors));
  });
}
RIVULET_EXAMPLE_SUM("MatMul", MatMulExamples);

RIVULET_OP("MatMul")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Shape(MatMulShape)
    .Gradient(MatMulGradient)
    .Doc("The product of two matrices, each transposed first where asked.");

RIVULET_OP("_FusedMatMul")
    .Input("a: T")
    .Input("b: T")
    .Input("args: num_args * T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: floattype")
    .Attr("num_args: int >= 0")
    .Attr("fused_ops: list(string) = []")
    .Attr("epsilon: float = 0.0001")
    .Attr("leakyrelu_alpha: float = 0.2")
    .Shape(FusedMatMulShape)
    .NotDifferentiable("a pass makes it of ops that are, after their gradients are there")
    .Doc(
        "MatMul, then BiasAdd and an optional activation. The attribute fused_ops is [BiasAdd], [BiasAdd, Relu] or "
        "[BiasAdd, Relu6], and args is the bias.");

RIVULET_OP("BatchMatMulV2")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Shape(BatchMatMulShape)
    .Gradient(BatchMatMulGradient)
    .Doc("The products of matrices in the last two axes; the axes before them are broadcast together.");

RIVULET_OP("BatchMatMul")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Shape(BatchMatMulV1Shape)
    .Gradient(BatchMatMulGradient)
    .Doc("The products of matrices in the last two axes; the axes before them are equal. Old graphs have it.");

}  // namespace
}  // namespace rivulet
