// Bands and diagonals of the matrices in the last two axes.
#include <algorithm>

#include "engine/ops/diagonals.h"
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

// The shape of a band of diagonals: with an axis for the diagonals where there are several.
Shape BandShape(const Shape& matrices, const DiagonalBand& band, int64_t longest) {
  std::vector<int64_t> dims(matrices.dims().begin(), matrices.dims().end() - 2);
  if (band.count() > 1) dims.push_back(band.count());
  dims.push_back(longest);
  return Shape(std::move(dims));
}

// The band's shape as far as it is known; `k` is input `k`.
StatusOr<Shape> BandOf(const InferenceContext& c, int k) {
  const Shape& matrices = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const auto given, KnownIntegers(c, k));
  if (!given || !matrices.known_rank()) return Shape::UnknownRank();
  if (matrices.rank() < 2)
    return InvalidArgument("{} has no matrices; at least two axes are needed", matrices.ToString());
  RIVULET_ASSIGN_OR_RETURN(DiagonalBand band, DiagonalBand::Of(*given));
  band.rows = matrices.dim(matrices.rank() - 2);
  band.columns = matrices.dim(matrices.rank() - 1);
  if (band.rows == kUnknownDim || band.columns == kUnknownDim) return BandShape(matrices, band, kUnknownDim);
  RIVULET_RETURN_IF_ERROR(band.Check());
  return BandShape(matrices, band, band.LongestLength());
}

Status DiagPartV3Shape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape diagonals, BandOf(c, 1));
  c.set_output(0, std::move(diagonals));
  return absl::OkStatus();
}

Status SetDiagV3Shape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape diagonals, BandOf(c, 2));
  if (!Shape::Compatible(diagonals, c.input(1)))
    return InvalidArgument("diagonals of {} do not fit matrices of {}, which have {}", c.input(1).ToString(),
                           c.input(0).ToString(), diagonals.ToString());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status DiagV3Shape(InferenceContext& c) {
  const Shape& diagonals = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const auto k, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(const auto num_rows, KnownInteger(c, 2));
  RIVULET_ASSIGN_OR_RETURN(const auto num_columns, KnownInteger(c, 3));
  if (!k || !num_rows || !num_columns || !diagonals.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const DiagonalBand band, DiagonalBand::Of(*k));
  const int own_axes = band.count() > 1 ? 2 : 1;
  if (diagonals.rank() < own_axes)
    return InvalidArgument("diagonals of {} must have at least {} axes", diagonals.ToString(), own_axes);
  if (own_axes == 2 && !Shape::Compatible(Shape({diagonals.dim(diagonals.rank() - 2)}), Shape({band.count()})))
    return InvalidArgument("diagonals of {} are not the {} from {} to {}", diagonals.ToString(), band.count(),
                           band.lower, band.upper);
  std::vector<int64_t> dims(diagonals.dims().begin(), diagonals.dims().end() - own_axes);
  const int64_t longest = diagonals.dim(diagonals.rank() - 1);
  if (longest == kUnknownDim) {
    dims.insert(dims.end(), {*num_rows >= 0 ? *num_rows : kUnknownDim, *num_columns >= 0 ? *num_columns : kUnknownDim});
    c.set_output(0, Shape(std::move(dims)));
    return absl::OkStatus();
  }
  const int64_t least_rows = longest - std::min<int64_t>(band.upper, 0);
  const int64_t least_columns = longest + std::max<int64_t>(band.lower, 0);
  const bool square = *num_rows == -1 && *num_columns == -1;
  const int64_t rows = square ? std::max(least_rows, least_columns) : *num_rows == -1 ? least_rows : *num_rows;
  const int64_t columns = square ? rows : *num_columns == -1 ? least_columns : *num_columns;
  if (rows < least_rows || columns < least_columns || (!square && rows != least_rows && columns != least_columns))
    return InvalidArgument("diagonals {} to {} of length {} do not fit a matrix of {}x{}", band.lower, band.upper,
                           longest, rows, columns);
  dims.insert(dims.end(), {rows, columns});
  const Shape matrices(std::move(dims));
  RIVULET_RETURN_IF_ERROR((DiagonalBand{band.lower, band.upper, rows, columns}).Check());
  c.set_output(0, matrices);
  return absl::OkStatus();
}

AttrMap Align(const Node& node) { return {{"align", node.attr<std::string>("align")}}; }

Output DiagonalsOfGradient(GradientContext& g, GradientOps& ops, Output k) {
  return ops.Op("MatrixDiagPartV3", {g.grad(), k, ops.Scalar(g.grad().dtype(), 0)}, Align(*g.node()));
}

Status DiagV3Gradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, DiagonalsOfGradient(g, ops, g.input(1)));
  return ops.status();
}

Status DiagPartV3Gradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixSetDiagV3", {ops.ZerosLike(g.input(0)), g.grad(), g.input(1)}, Align(*g.node())));
  return ops.status();
}

Status SetDiagV3Gradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("MatrixSetDiagV3", {g.grad(), ops.ZerosLike(g.input(1)), g.input(2)}, Align(*g.node())));
  g.set_input_grad(1, DiagonalsOfGradient(g, ops, g.input(2)));
  return ops.status();
}

#define RIVULET_ALIGN "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"

RIVULET_OP("MatrixDiagV3")
    .Input("diagonal: T")
    .Input("k: int32")
    .Input("num_rows: int32")
    .Input("num_cols: int32")
    .Input("padding_value: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr(RIVULET_ALIGN)
    .Shape(DiagV3Shape)
    .Gradient(DiagV3Gradient)
    .Doc(
        "Matrices of padding_value with the given diagonals k (one, or from the first to the last). Sizes of -1 follow "
        "from them. Both k and the sizes must be known when a program is compiled.");

RIVULET_OP("MatrixDiagPartV3")
    .Input("input: T")
    .Input("k: int32")
    .Input("padding_value: T")
    .Output("diagonal: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr(RIVULET_ALIGN)
    .Shape(DiagPartV3Shape)
    .Gradient(DiagPartV3Gradient)
    .Doc(
        "The diagonals k (one, or from the first to the last) of matrices, in descending order of k. Shorter ones are "
        "padded with padding_value on the side given by align. The input k must be known when a program is compiled.");

RIVULET_OP("MatrixSetDiagV3")
    .Input("input: T")
    .Input("diagonal: T")
    .Input("k: int32")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr(RIVULET_ALIGN)
    .Shape(SetDiagV3Shape)
    .Gradient(SetDiagV3Gradient)
    .Doc("input with other diagonals k (one, or from the first to the last), which must be known when compiled.");

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

// [shape, shape] of one shape.
Status DiagV1Shape(InferenceContext& c) {
  const Shape& diagonal = c.input(0);
  if (!diagonal.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (diagonal.rank() == 0) return InvalidArgument("a scalar is no diagonal");
  std::vector<int64_t> dims(diagonal.dims().begin(), diagonal.dims().end());
  dims.insert(dims.end(), diagonal.dims().begin(), diagonal.dims().end());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status DiagPartV1Shape(InferenceContext& c) {
  const Shape& input = c.input(0);
  if (!input.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  const auto half = static_cast<size_t>(input.rank() / 2);
  if (input.rank() == 0 || input.rank() % 2 != 0)
    return InvalidArgument("input {} has no even number of axes", input.ToString());
  StatusOr<Shape> merged = Shape::Merge(Shape(std::vector<int64_t>(input.dims().begin(), input.dims().begin() + half)),
                                        Shape(std::vector<int64_t>(input.dims().begin() + half, input.dims().end())));
  if (!merged.ok()) return InvalidArgument("the two halves of {} differ", input.ToString());
  c.set_output(0, *std::move(merged));
  return absl::OkStatus();
}

RIVULET_OP("Diag")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Shape(DiagV1Shape)
    .Gradient([](GradientContext& g) -> Status {
      GradientOps ops(g);
      g.set_input_grad(0, ops.Op("DiagPart", {g.grad()}));
      return ops.status();
    })
    .Doc("Zeros, and the input where the two halves of the indices are equal.");

RIVULET_OP("DiagPart")
    .Input("input: T")
    .Output("diagonal: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Shape(DiagPartV1Shape)
    .Gradient([](GradientContext& g) -> Status {
      GradientOps ops(g);
      g.set_input_grad(0, ops.Op("Diag", {g.grad()}));
      return ops.status();
    })
    .Doc("The elements where the two halves of the indices are equal.");

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
