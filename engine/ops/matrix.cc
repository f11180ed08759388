// Bands and diagonals of the matrices in the last two axes.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status BandPartShape(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(0).rank() < 2)
    return InvalidArgument("{} has no matrices; at least two axes are needed", c.input(0).ToString());
  for (int i : {1, 2})
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("num_lower and num_upper must be scalars, but input {} has shape {}", i,
                             c.input(i).ToString());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status BandPartGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixBandPart", {g.grad(), g.input(1), g.input(2)}));
  return ops.status();
}

Status DiagShape(InferenceContext& c) {
  const Shape& diagonal = c.input(0);
  if (!diagonal.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (diagonal.rank() < 1) return InvalidArgument("a scalar is no diagonal");
  std::vector<int64_t> dims(diagonal.dims().begin(), diagonal.dims().end());
  dims.push_back(dims.back());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// The shape of the diagonals of `matrices`.
StatusOr<Shape> DiagonalOf(const Shape& matrices) {
  if (!matrices.known_rank()) return Shape::UnknownRank();
  if (matrices.rank() < 2)
    return InvalidArgument("{} has no matrices; at least two axes are needed", matrices.ToString());
  std::vector<int64_t> dims(matrices.dims().begin(), matrices.dims().end() - 2);
  const int64_t rows = matrices.dim(matrices.rank() - 2), columns = matrices.dim(matrices.rank() - 1);
  dims.push_back(rows == kUnknownDim || columns == kUnknownDim ? kUnknownDim : std::min(rows, columns));
  return Shape(std::move(dims));
}

Status DiagPartShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape diagonal, DiagonalOf(c.input(0)));
  c.set_output(0, std::move(diagonal));
  return absl::OkStatus();
}

Status SetDiagShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape diagonal, DiagonalOf(c.input(0)));
  if (!Shape::Compatible(diagonal, c.input(1)))
    return InvalidArgument("a diagonal of {} does not fit matrices of {}, which have {}", c.input(1).ToString(),
                           c.input(0).ToString(), diagonal.ToString());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status DiagGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixDiagPart", {g.grad()}));
  return ops.status();
}

Status DiagPartGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixSetDiag", {ops.ZerosLike(g.input(0)), g.grad()}));
  return ops.status();
}

Status SetDiagGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixSetDiag", {g.grad(), ops.ZerosLike(g.input(1))}));
  g.set_input_grad(1, ops.Op("MatrixDiagPart", {g.grad()}));
  return ops.status();
}

RIVULET_OP("MatrixBandPart")
    .Input("input: T")
    .Input("num_lower: Tindex")
    .Input("num_upper: Tindex")
    .Output("band: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tindex: {int32, int64} = DT_INT64")
    .Shape(BandPartShape)
    .Gradient(BandPartGradient)
    .Doc(
        "input with zeros where (row - column) > num_lower or (column - row) > num_upper; a negative number keeps the "
        "whole triangle.");

RIVULET_OP("MatrixDiag")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(DiagShape)
    .Gradient(DiagGradient)
    .Doc("Square matrices of zeros with the given diagonals.");

RIVULET_OP("MatrixDiagPart")
    .Input("input: T")
    .Output("diagonal: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(DiagPartShape)
    .Gradient(DiagPartGradient)
    .Doc("The diagonals of matrices.");

RIVULET_OP("MatrixSetDiag")
    .Input("input: T")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SetDiagShape)
    .Gradient(SetDiagGradient)
    .Doc("input with other diagonals.");

}  // namespace
}  // namespace rivulet
