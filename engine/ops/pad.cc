// Tensors with something around them: a constant, or their own edge mirrored.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// Paddings are [rank, 2].
Status PadShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape of_paddings, c.WithRank(1, 2));
  if (of_paddings.dim(1) != kUnknownDim && of_paddings.dim(1) != 2)
    return InvalidArgument("paddings must have shape [rank, 2], not {}", of_paddings.ToString());
  const Shape& x = c.input(0);
  if (x.known_rank() && of_paddings.dim(0) != kUnknownDim && of_paddings.dim(0) != x.rank())
    return InvalidArgument("paddings {} must have a row for each of the {} axes of {}", of_paddings.ToString(),
                           x.rank(), x.ToString());
  if (!x.known_rank()) {
    c.set_output(0, of_paddings.dim(0) == kUnknownDim || of_paddings.dim(0) > 254
                        ? Shape::UnknownRank()
                        : Shape(std::vector<int64_t>(static_cast<size_t>(of_paddings.dim(0)), kUnknownDim)));
    return absl::OkStatus();
  }
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), kUnknownDim);
  if (const Tensor* paddings = c.input_value(1)) {
    const bool wide = paddings->dtype() == DType::kInt64;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const auto i = static_cast<size_t>(axis);
      const int64_t before = wide ? paddings->flat<int64_t>()[2 * i] : paddings->flat<int32_t>()[2 * i];
      const int64_t after = wide ? paddings->flat<int64_t>()[2 * i + 1] : paddings->flat<int32_t>()[2 * i + 1];
      if (before < 0 || after < 0)
        return InvalidArgument("the paddings of axis {}, {} and {}, must not be negative", axis, before, after);
      RIVULET_ASSIGN_OR_RETURN(const int64_t both, AddDims(before, after));
      RIVULET_ASSIGN_OR_RETURN(dims[i], AddDims(x.dim(axis), both));
    }
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Output PadInputGradient(GradientContext& g, GradientOps& ops) {
  const Output x = g.input(0), paddings = ops.AsInt32(g.input(1));
  // The column "before" of paddings.
  const Output before =
      ops.Op("StridedSlice", {paddings, ops.Ints({0, 0}), ops.Ints({0, 1}), ops.Ints({1, 1})},
             {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}, {"shrink_axis_mask", int64_t{2}}});
  return ops.Op("Slice", {g.grad(), before, ops.ShapeOf(x)});
}

Status PadGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, PadInputGradient(g, ops));
  return ops.status();
}

Status PadV2Shape(InferenceContext& c) {
  if (c.input(2).known_rank() && c.input(2).rank() != 0)
    return InvalidArgument("constant_values must be a scalar, not of shape {}", c.input(2).ToString());
  return PadShape(c);
}

// Gradients at positions outside the input belong to the constant.
Status PadV2Gradient(GradientContext& g) {
  GradientOps ops(g);
  const Output inside = PadInputGradient(g, ops);
  const auto all = [&](Output x) {
    return ops.Sum(x, ops.Op("Range", {ops.Int(0), ops.Op("Rank", {x}), ops.Int(1)}), /*keep_dims=*/false);
  };
  g.set_input_grad(0, inside);
  g.set_input_grad(2, ops.Sub(all(g.grad()), all(inside)));
  return ops.status();
}

// How far a mirror reaches into an axis of this size.
int64_t MirrorReach(const InferenceContext& c, int64_t size) {
  return c.attr<std::string>("mode") == "REFLECT" ? size - 1 : size;
}

StatusOr<std::vector<std::pair<int64_t, int64_t>>> KnownPaddings(const InferenceContext& c, int rank) {
  const Tensor* paddings = c.input_value(1);
  std::vector<std::pair<int64_t, int64_t>> known;
  if (paddings == nullptr) return known;
  const bool wide = paddings->dtype() == DType::kInt64;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i)
    known.emplace_back(wide ? paddings->flat<int64_t>()[2 * i] : paddings->flat<int32_t>()[2 * i],
                       wide ? paddings->flat<int64_t>()[2 * i + 1] : paddings->flat<int32_t>()[2 * i + 1]);
  return known;
}

Status CheckMirror(const InferenceContext& c, int axis, int64_t size, std::pair<int64_t, int64_t> padding) {
  if (size == kUnknownDim) return absl::OkStatus();
  if (padding.first > MirrorReach(c, size) || padding.second > MirrorReach(c, size))
    return InvalidArgument("the paddings of axis {}, {} and {}, reach beyond its size {} in mode {}", axis,
                           padding.first, padding.second, size, c.attr<std::string>("mode"));
  return absl::OkStatus();
}

Status MirrorPadShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(PadShape(c));
  const Shape& x = c.input(0);
  if (!x.known_rank()) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const auto paddings, KnownPaddings(c, x.rank()));
  for (size_t i = 0; i < paddings.size(); ++i)
    RIVULET_RETURN_IF_ERROR(CheckMirror(c, static_cast<int>(i), x.dim(static_cast<int>(i)), paddings[i]));
  return absl::OkStatus();
}

Status MirrorPadGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape of_paddings, c.WithRank(1, 2));
  const Shape& dy = c.input(0);
  if (!Shape::Compatible(of_paddings, Shape({dy.known_rank() ? dy.rank() : kUnknownDim, 2})))
    return InvalidArgument("paddings {} must have a row of two for each axis of {}", of_paddings.ToString(),
                           dy.ToString());
  if (!dy.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  std::vector<int64_t> dims(static_cast<size_t>(dy.rank()), kUnknownDim);
  RIVULET_ASSIGN_OR_RETURN(const auto paddings, KnownPaddings(c, dy.rank()));
  for (size_t i = 0; i < paddings.size(); ++i) {
    const auto [before, after] = paddings[i];
    const int64_t padded = dy.dim(static_cast<int>(i));
    if (before < 0 || after < 0)
      return InvalidArgument("the paddings of axis {}, {} and {}, must not be negative", i, before, after);
    if (padded == kUnknownDim) continue;
    if (before > padded || after > padded - before)
      return InvalidArgument("the paddings of axis {}, {} and {}, are more than its size {}", i, before, after, padded);
    dims[i] = padded - before - after;
    RIVULET_RETURN_IF_ERROR(CheckMirror(c, static_cast<int>(i), dims[i], paddings[i]));
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// Each is the other's gradient.
GradientFn MirrorGradient(const char* op) {
  return [op](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(op, {g.grad(), g.input(1)}, {{"mode", g.node()->attr<std::string>("mode")}}));
    return ops.status();
  };
}

RIVULET_OP("Pad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PadShape)
    .Gradient(PadGradient)
    .Doc("input with zeros around it: paddings[axis] = [before, after], known when a program is compiled.");

RIVULET_OP("PadV2")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Input("constant_values: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PadV2Shape)
    .Gradient(PadV2Gradient)
    .Doc("input with a constant around it: paddings[axis] = [before, after], known when a program is compiled.");

RIVULET_OP("MirrorPad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .Shape(MirrorPadShape)
    .Gradient(MirrorGradient("MirrorPadGrad"))
    .Doc(
        "input with its own edge mirrored around it, without (REFLECT) or with (SYMMETRIC) the outermost element. The "
        "paddings must be known when a program is compiled.");

RIVULET_OP("MirrorPadGrad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .Shape(MirrorPadGradShape)
    .Gradient(MirrorGradient("MirrorPad"))
    .Doc("The gradient of MirrorPad, which adds the gradients of mirrored elements to those of their sources.");

}  // namespace
}  // namespace rivulet
