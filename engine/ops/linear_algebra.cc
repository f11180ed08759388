// Factorisations of matrices, and systems of equations.
#include <algorithm>

#include "engine/ops/factorization_gradients.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status QrShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  if (!input.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    c.set_output(1, Shape::UnknownRank());
    return absl::OkStatus();
  }
  const int rank = input.rank();
  if (rank < 2) return InvalidArgument("input must be a matrix or a batch of them, not of shape {}", input.ToString());
  const int64_t rows = input.dim(rank - 2), columns = input.dim(rank - 1);
  const bool known = rows != kUnknownDim && columns != kUnknownDim;
  const int64_t inner = c.attr<bool>("full_matrices") ? rows : known ? std::min(rows, columns) : kUnknownDim;
  Shape q = input, r = input;
  q.set_dim(rank - 1, inner);
  r.set_dim(rank - 2, inner);
  c.set_output(0, q);
  c.set_output(1, r);
  return absl::OkStatus();
}

RIVULET_OP("Qr")
    .Input("input: T")
    .Output("q: T")
    .Output("r: T")
    .Attr("full_matrices: bool = false")
    .Attr("T: {float, double}")
    .Shape(QrShape)
    .Gradient(QrGradient)
    .Doc(
        "input = q · r for each matrix [M, N] of the last two axes: q has orthonormal columns, r is upper triangular. "
        "Householder's reflections, as LAPACK's. q is [M, min(M, N)], with full_matrices [M, M].");

// A square matrix, or a batch of them, as far as that is known.
Status CheckSquare(const Shape& input) {
  if (!input.known_rank()) return absl::OkStatus();
  const int rank = input.rank();
  if (rank < 2) return InvalidArgument("input must be a matrix or a batch of them, not of shape {}", input.ToString());
  const int64_t rows = input.dim(rank - 2), columns = input.dim(rank - 1);
  if (rows != kUnknownDim && columns != kUnknownDim && rows != columns)
    return InvalidArgument("the matrices of {} are not square", input.ToString());
  return absl::OkStatus();
}

Status SquareShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSquare(c.input(0)));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// `input` without its last `axes` axes.
Shape Batch(const Shape& input, int axes) {
  if (!input.known_rank()) return Shape::UnknownRank();
  return Shape(std::vector<int64_t>(input.dims().begin(), input.dims().end() - axes));
}

Status DeterminantShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSquare(c.input(0)));
  c.set_output(0, Batch(c.input(0), 2));
  return absl::OkStatus();
}

Status LogDeterminantShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(DeterminantShape(c));
  c.set_output(1, Batch(c.input(0), 2));
  return absl::OkStatus();
}

Status SolveShape(InferenceContext& c) {
  const Shape &matrix = c.input(0), &rhs = c.input(1);
  RIVULET_RETURN_IF_ERROR(CheckSquare(matrix));
  if (matrix.known_rank() && rhs.known_rank()) {
    const bool fits = matrix.rank() == rhs.rank() && Shape::Compatible(Batch(matrix, 1), Batch(rhs, 1));
    if (!fits)
      return InvalidArgument("matrix {} and rhs {} differ in the batch or in the number of rows", matrix.ToString(),
                             rhs.ToString());
  }
  c.set_output(0, rhs);
  return absl::OkStatus();
}

Status EighShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckSquare(c.input(0)));
  c.set_output(0, Batch(c.input(0), 1));
  c.set_output(1, c.attr<bool>("compute_v") ? c.input(0) : Shape({0}));
  return absl::OkStatus();
}

Status SvdShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  if (!input.known_rank()) {
    for (int i = 0; i < 3; ++i) c.set_output(i, Shape::UnknownRank());
    return absl::OkStatus();
  }
  const int rank = input.rank();
  if (rank < 2) return InvalidArgument("input must be a matrix or a batch of them, not of shape {}", input.ToString());
  const int64_t rows = input.dim(rank - 2), columns = input.dim(rank - 1);
  const int64_t inner = rows == kUnknownDim || columns == kUnknownDim ? kUnknownDim : std::min(rows, columns);
  Shape s = Batch(input, 1), u = input, v = input;
  s.set_dim(rank - 2, inner);
  const bool full = c.attr<bool>("full_matrices");
  u.set_dim(rank - 1, full ? rows : inner);
  v.set_dim(rank - 2, columns);
  v.set_dim(rank - 1, full ? columns : inner);
  c.set_output(0, s);
  c.set_output(1, c.attr<bool>("compute_uv") ? u : Shape({0}));
  c.set_output(2, c.attr<bool>("compute_uv") ? v : Shape({0}));
  return absl::OkStatus();
}

Status LuShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(SquareShape(c));
  c.set_output(1, Batch(c.input(0), 1));
  return absl::OkStatus();
}

Output Product(GradientOps& ops, Output a, Output b, bool adj_a, bool adj_b) {
  return ops.Op("BatchMatMulV2", {a, b}, {{"adj_x", adj_a}, {"adj_y", adj_b}});
}

// dA of the inverse Y: -Yᵀ dY Yᵀ; of the inverse of Aᵀ its transpose.
Status InverseGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output y = g.output(0);
  const bool adjoint = g.node()->attr<bool>("adjoint");
  const Output inner = Product(ops, y, g.grad(), true, adjoint);
  g.set_input_grad(0, ops.Neg(adjoint ? Product(ops, Product(ops, y, g.grad(), false, true), y, false, false)
                                      : Product(ops, inner, y, false, true)));
  return ops.status();
}

// Of det(A): dy det(A) A⁻ᵀ; of log|det(A)|: dy A⁻ᵀ.
Status DeterminantGradient(GradientContext& g) {
  GradientOps ops(g);
  const bool log = g.node()->type() == "LogMatrixDeterminant";
  const Output arrived = log ? g.grad(1) : ops.Mul(g.grad(), g.output(0));
  if (!arrived) return ops.status();
  const Output inverse = ops.Op("MatrixInverse", {g.input(0)}, {{"adjoint", true}});
  const Output column = ops.Op("ExpandDims", {ops.Op("ExpandDims", {arrived, ops.Int(-1)}), ops.Int(-1)});
  g.set_input_grad(0, ops.Mul(column, inverse));
  return ops.status();
}

// Of X = A⁻¹ B: dB = A⁻ᵀ dX, dA = -dB Xᵀ; of X = A⁻ᵀ B: dA = -X dBᵀ.
Status SolveGradient(GradientContext& g) {
  GradientOps ops(g);
  const std::string op(g.node()->type());
  const bool adjoint = g.node()->attr<bool>("adjoint");
  AttrMap attrs = {{"adjoint", !adjoint}};
  const bool triangular = op == "MatrixTriangularSolve";
  if (triangular) attrs["lower"] = g.node()->attr<bool>("lower");
  const Output by_rhs = ops.Op(op, {g.input(0), g.grad()}, attrs);
  g.set_input_grad(1, by_rhs);
  Output by_matrix = ops.Neg(adjoint ? Product(ops, g.output(0), by_rhs, false, true)
                                     : Product(ops, by_rhs, g.output(0), false, true));
  if (triangular) {
    const bool lower = g.node()->attr<bool>("lower");
    by_matrix = ops.Op("MatrixBandPart", {by_matrix, ops.Int(lower ? -1 : 0), ops.Int(lower ? 0 : -1)});
  }
  g.set_input_grad(0, by_matrix);
  return ops.status();
}

#define RIVULET_MATRIX_TYPES "T: {float, double}"

Status CrossShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape both, Shape::Merge(c.input(0), c.input(1)));
  if (both.known_rank() && (both.rank() == 0 || !Shape::Compatible(Shape({both.dim(both.rank() - 1)}), Shape({3}))))
    return InvalidArgument("the last axis of {} does not have three elements", both.ToString());
  c.set_output(0, std::move(both));
  return absl::OkStatus();
}

// a × b turned by one: dA = b × dy, dB = dy × a.
Status CrossGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Cross", {g.input(1), g.grad()}));
  g.set_input_grad(1, ops.Op("Cross", {g.grad(), g.input(0)}));
  return ops.status();
}

RIVULET_OP("Cross")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Shape(CrossShape)
    .Gradient(CrossGradient)
    .Doc("The vector product of each three elements along the last axis.");

RIVULET_OP("Cholesky")
    .Input("input: T")
    .Output("output: T")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(SquareShape)
    .Gradient(CholeskyGradient)
    .Doc("The lower triangular L with L · Lᵀ = input, which must be symmetric and positive definite.");

RIVULET_OP("MatrixDeterminant")
    .Input("input: T")
    .Output("output: T")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(DeterminantShape)
    .Gradient(DeterminantGradient)
    .Doc("The determinant of each square matrix of the last two axes.");

RIVULET_OP("LogMatrixDeterminant")
    .Input("input: T")
    .Output("sign: T")
    .Output("log_abs_determinant: T")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(LogDeterminantShape)
    .Gradient(DeterminantGradient)
    .Doc("The sign of each determinant (0 where it is 0) and the logarithm of its absolute value.");

RIVULET_OP("MatrixInverse")
    .Input("input: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(SquareShape)
    .Gradient(InverseGradient)
    .Doc("The inverse of each square matrix, or of its transpose; a singular one is an error.");

RIVULET_OP("MatrixSolve")
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(SolveShape)
    .Gradient(SolveGradient)
    .Doc("X with matrix · X = rhs, or with the transposed matrix; a singular one is an error.");

RIVULET_OP("MatrixTriangularSolve")
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("lower: bool = true")
    .Attr("adjoint: bool = false")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(SolveShape)
    .Gradient(SolveGradient)
    .Doc("X with matrix · X = rhs, of which only the lower (or upper) triangle of the matrix is read.");

RIVULET_OP("SelfAdjointEigV2")
    .Input("input: T")
    .Output("e: T")
    .Output("v: T")
    .Attr("compute_v: bool = true")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(EighShape)
    .Gradient(EighGradient)
    .Doc("The eigenvalues of each symmetric matrix, ascending, and unit eigenvectors as columns. Signs are free.");

RIVULET_OP("Svd")
    .Input("input: T")
    .Output("s: T")
    .Output("u: T")
    .Output("v: T")
    .Attr("compute_uv: bool = true")
    .Attr("full_matrices: bool = false")
    .Attr(RIVULET_MATRIX_TYPES)
    .Shape(SvdShape)
    .Gradient(SvdGradient)
    .Doc("input = u · diag(s) · vᵀ, singular values descending. Signs of the vectors are free.");

RIVULET_OP("Lu")
    .Input("input: T")
    .Output("lu: T")
    .Output("p: output_idx_type")
    .Attr(RIVULET_MATRIX_TYPES)
    .Attr("output_idx_type: {int32, int64} = DT_INT32")
    .Shape(LuShape)
    .NotDifferentiable("TensorFlow has no gradient of it")
    .Doc("L and U of each matrix in one, with rows in the order p, chosen by largest pivots.");

}  // namespace
}  // namespace rivulet
