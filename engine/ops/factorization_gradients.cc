#include "engine/ops/factorization_gradients.h"

#include <utility>

#include "engine/ops/gradient_ops.h"

namespace rivulet {
namespace {

// Building blocks over the last two axes of tensors of one known rank.
class MatrixOps : public GradientOps {
 public:
  MatrixOps(GradientContext& g, int rank) : GradientOps(g), rank_(rank) {}

  enum Side { kPlain, kTransposed };
  Output Product(Output a, Output b, Side of_a = kPlain, Side of_b = kPlain) {
    return Op("BatchMatMulV2", {a, b}, {{"adj_x", of_a == kTransposed}, {"adj_y", of_b == kTransposed}});
  }
  Output Transposed(Output a) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rank_; ++axis) axes.push_back(axis);
    std::swap(axes[static_cast<size_t>(rank_) - 2], axes[static_cast<size_t>(rank_) - 1]);
    return Op("Transpose", {a, Ints(std::move(axes))});
  }
  Output Lower(Output a) { return Op("MatrixBandPart", {a, Int(-1), Int(0)}); }
  Output Diagonal(Output values) { return Op("MatrixDiag", {values}); }
  Output WithHalfDiagonal(Output a) { return Op("MatrixSetDiag", {a, Scale(Op("MatrixDiagPart", {a}), 0.5)}); }
  // Columns [from, from + count) of each matrix; a count of -1 takes the rest.
  Output Columns(Output a, int64_t from, int64_t count) {
    std::vector<int64_t> begin(static_cast<size_t>(rank_), 0), size(static_cast<size_t>(rank_), -1);
    begin.back() = from;
    size.back() = count;
    return Op("Slice", {a, Ints(std::move(begin)), Ints(std::move(size))});
  }
  // TensorFlow's x / (x² + 1e-20): 0 at 0.
  Output SafeReciprocal(Output x) { return Div(x, Add(Square(x), Scalar(x.dtype(), 1e-20))); }
  // f(i, j) = 1 / (values_j - values_i), and 0 on the diagonal.
  Output InverseGaps(Output values) {
    const Output gaps = Sub(Op("ExpandDims", {values, Int(-2)}), Op("ExpandDims", {values, Int(-1)}));
    return Op("MatrixSetDiag", {SafeReciprocal(gaps), ZerosLike(values)});
  }
  Output OrZeros(Output gradient, Output like) { return gradient ? gradient : ZerosLike(like); }

 private:
  int rank_;
};

struct MatrixSize {
  int rank = 0;
  int64_t rows = 0, columns = 0;
};

StatusOr<MatrixSize> SizeOfMatrix(const GradientContext& g) {
  const Shape& shape = g.input(0).shape();
  if (!shape.known_rank()) return Unimplemented("its gradient where the rank of its input is unknown");
  return MatrixSize{shape.rank(), shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1)};
}

StatusOr<MatrixSize> KnownSizeOfMatrix(const GradientContext& g) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixSize size, SizeOfMatrix(g));
  if (size.rows == kUnknownDim || size.columns == kUnknownDim)
    return Unimplemented("its gradient where the size of the matrix is unknown, as in {}",
                         g.input(0).shape().ToString());
  return size;
}

// x · R⁻ᵀ for an upper triangular R.
Output OverUpper(MatrixOps& ops, Output x, Output r) {
  return ops.Transposed(ops.Op("MatrixTriangularSolve", {r, ops.Transposed(x)}, {{"lower", false}}));
}

// Of matrices with at least as many rows as columns. Roberts and Roberts, "QR and LQ decomposition matrix
// backpropagation algorithms" (arXiv 2009.10071).
Output TallQrGradient(MatrixOps& ops, Output q, Output r, Output dq, Output dr) {
  const Output qdq = ops.Product(q, dq, MatrixOps::kTransposed);
  const Output rdr = ops.Product(r, dr, MatrixOps::kPlain, MatrixOps::kTransposed);
  const Output skew = ops.Add(ops.Sub(qdq, ops.Transposed(qdq)), ops.Sub(rdr, ops.Transposed(rdr)));
  const Output within = ops.Product(q, ops.Add(dr, OverUpper(ops, ops.Lower(skew), r)));
  return ops.Add(within, OverUpper(ops, ops.Sub(dq, ops.Product(q, qdq)), r));
}

}  // namespace

// With Φ the lower triangle with half its diagonal: dA is the symmetric part of L⁻ᵀ Φ(Lᵀ dL) L⁻¹.
Status CholeskyGradient(GradientContext& g) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixSize size, SizeOfMatrix(g));
  MatrixOps ops(g, size.rank);
  const Output l = g.output(0);
  const Output middle = ops.Lower(ops.WithHalfDiagonal(ops.Product(l, g.grad(), MatrixOps::kTransposed)));
  const AttrMap transposed = {{"lower", true}, {"adjoint", true}};
  const Output left = ops.Op("MatrixTriangularSolve", {l, middle}, transposed);
  const Output both = ops.Op("MatrixTriangularSolve", {l, ops.Transposed(left)}, transposed);
  g.set_input_grad(0, ops.Scale(ops.Add(both, ops.Transposed(both)), 0.5));
  return ops.status();
}

Status QrGradient(GradientContext& g) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixSize size, KnownSizeOfMatrix(g));
  if (g.node()->attr<bool>("full_matrices") && size.rows > size.columns)
    return Unimplemented("its gradient with full_matrices where there are more rows than columns");
  MatrixOps ops(g, size.rank);
  const Output q = g.output(0), r = g.output(1);
  const Output dq = ops.OrZeros(g.grad(0), q), dr = ops.OrZeros(g.grad(1), r);
  if (size.rows >= size.columns) {
    g.set_input_grad(0, TallQrGradient(ops, q, r, dq, dr));
    return ops.status();
  }
  // A = [X, Y] and R = [U, V] with X = Q U square and Y = Q V.
  const Output y = ops.Columns(g.input(0), size.rows, -1), u = ops.Columns(r, 0, size.rows);
  const Output du = ops.Columns(dr, 0, size.rows), dv = ops.Columns(dr, size.rows, -1);
  const Output dq_of_x = ops.Add(dq, ops.Product(y, dv, MatrixOps::kPlain, MatrixOps::kTransposed));
  const Output dx = TallQrGradient(ops, q, u, dq_of_x, du);
  g.set_input_grad(0, ops.Op("ConcatV2", {dx, ops.Product(q, dv), ops.Int(-1)}));
  return ops.status();
}

// V (diag(de) + F ∘ Vᵀ dV) Vᵀ. Only the lower triangle of the input is read, so it gets the whole gradient.
Status EighGradient(GradientContext& g) {
  RIVULET_ASSIGN_OR_RETURN(const MatrixSize size, SizeOfMatrix(g));
  MatrixOps ops(g, size.rank);
  const bool vectors = g.node()->attr<bool>("compute_v");
  Output e = g.output(0), v;
  if (vectors) {
    v = g.output(1);
  } else if (Node* whole = ops.AddNode("SelfAdjointEigV2", {g.input(0)}, {{"compute_v", true}})) {
    v = whole->output(1);
  }
  Output inner = ops.Diagonal(ops.OrZeros(g.grad(0), e));
  if (vectors && g.grad(1)) {
    const Output turn = ops.Product(v, g.grad(1), MatrixOps::kTransposed);
    inner = ops.Add(inner, ops.Mul(ops.InverseGaps(e), turn));
  }
  const Output right = ops.Product(inner, v, MatrixOps::kPlain, MatrixOps::kTransposed);
  const Output whole = ops.Product(v, right);
  g.set_input_grad(0, ops.Lower(ops.WithHalfDiagonal(ops.Add(whole, ops.Transposed(whole)))));
  return ops.status();
}

// Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation" (2008), and
// Townsend, "Differentiating the singular value decomposition" (2016).
Status SvdGradient(GradientContext& g) {
  RIVULET_ASSIGN_OR_RETURN(MatrixSize size, KnownSizeOfMatrix(g));
  MatrixOps ops(g, size.rank);
  const Output s = g.output(0);
  const Output ds = ops.Diagonal(ops.OrZeros(g.grad(0), s));
  if (!g.node()->attr<bool>("compute_uv") || (!g.grad(1) && !g.grad(2))) {
    Node* vectors = g.node();
    if (!g.node()->attr<bool>("compute_uv") || g.node()->attr<bool>("full_matrices"))
      vectors = ops.AddNode("Svd", {g.input(0)}, {{"compute_uv", true}, {"full_matrices", false}});
    if (vectors == nullptr) return ops.status();
    const Output right = ops.Product(ds, vectors->output(2), MatrixOps::kPlain, MatrixOps::kTransposed);
    g.set_input_grad(0, ops.Product(vectors->output(1), right));
    return ops.status();
  }
  const bool full = g.node()->attr<bool>("full_matrices");
  if (full && (size.rows - size.columns > 1 || size.columns - size.rows > 1))
    return Unimplemented("its gradient with full_matrices where rows and columns differ by more than one");
  Output u = g.output(1), v = g.output(2);
  Output du = ops.OrZeros(g.grad(1), u), dv = ops.OrZeros(g.grad(2), v);
  // A matrix that is taller than wide is treated as its transpose, and the gradient turned back.
  const bool tall = size.rows > size.columns;
  if (tall) {
    std::swap(size.rows, size.columns);
    std::swap(u, v);
    std::swap(du, dv);
  }
  const Output v1 = full ? ops.Columns(v, 0, size.rows) : v, dv1 = full ? ops.Columns(dv, 0, size.rows) : dv;
  const Output gaps = ops.InverseGaps(ops.Square(s)), s_matrix = ops.Diagonal(s);
  const Output f_u = ops.Mul(gaps, ops.Product(u, du, MatrixOps::kTransposed));
  const Output f_v = ops.Mul(gaps, ops.Product(v1, dv1, MatrixOps::kTransposed));
  const Output by_u = ops.Product(ops.Add(f_u, ops.Transposed(f_u)), s_matrix);
  const Output by_v = ops.Product(s_matrix, ops.Add(f_v, ops.Transposed(f_v)));
  const Output inner = ops.Add(ds, ops.Add(by_u, by_v));
  Output da = ops.Product(u, ops.Product(inner, v1, MatrixOps::kPlain, MatrixOps::kTransposed));
  if (size.rows != size.columns) {
    // The component of v's change outside the space of its columns.
    const Output own = ops.Product(dv1, v1, MatrixOps::kTransposed);
    Output out = ops.Sub(ops.Transposed(dv1), ops.Product(own, v1, MatrixOps::kPlain, MatrixOps::kTransposed));
    if (full) {
      const Output v2 = ops.Columns(v, size.rows, -1), dv2 = ops.Columns(dv, size.rows, -1);
      const Output other = ops.Product(v1, dv2, MatrixOps::kTransposed);
      out = ops.Sub(out, ops.Product(other, v2, MatrixOps::kPlain, MatrixOps::kTransposed));
    }
    da = ops.Add(da, ops.Product(ops.Product(u, ops.Diagonal(ops.SafeReciprocal(s))), out));
  }
  g.set_input_grad(0, tall ? ops.Transposed(da) : da);
  return ops.status();
}

}  // namespace rivulet
