// Factorisations of matrices.
#include <algorithm>

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
    .NotDifferentiable("it is there for first values of variables")
    .Doc(
        "input = q · r for each matrix [M, N] of the last two axes: q has orthonormal columns, r is upper triangular. "
        "Householder's reflections, as LAPACK's. q is [M, min(M, N)], with full_matrices [M, M].");

}  // namespace
}  // namespace rivulet
