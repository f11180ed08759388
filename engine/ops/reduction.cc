// Reductions over axes, and the positions of extremes.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ReductionShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  const bool keep_dims = c.attr<bool>("keep_dims");
  RIVULET_ASSIGN_OR_RETURN(auto axes, KnownIntegers(c, 1));
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (!axes) {
    // How many axes are reduced is often known without knowing which. A loss reduced over Range(0, Rank) is a scalar.
    const Shape& indices = c.input(1);
    const bool counted = x.rank() == 0 || indices.IsFullyKnown();
    const size_t rank = static_cast<size_t>(x.rank());
    const size_t count = x.rank() == 0 ? 0 : counted ? std::min(static_cast<size_t>(indices.elements()), rank) : 0;
    if (keep_dims) {
      c.set_output(0, Shape(std::vector<int64_t>(rank, counted && count == rank ? 1 : kUnknownDim)));
    } else {
      c.set_output(0, counted ? Shape(std::vector<int64_t>(rank - count, kUnknownDim)) : Shape::UnknownRank());
    }
    return absl::OkStatus();
  }
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), false);
  for (int64_t axis : *axes) {
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, x.rank(), "reduction axis"));
    if (reduced[static_cast<size_t>(normal)]) return InvalidArgument("reduction axis {} is given twice", axis);
    reduced[static_cast<size_t>(normal)] = true;
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!reduced[static_cast<size_t>(axis)])
      dims.push_back(x.dim(axis));
    else if (keep_dims)
      dims.push_back(1);
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// `value`, shaped as the node's output, with 1 at each reduced axis.
Output WithKeptDims(GradientContext& g, GradientOps& ops, Output value) {
  if (g.node()->attr<bool>("keep_dims")) return value;
  return ops.KeepDims(value, g.input(0), g.input(1));
}

Status SumGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.BroadcastLike(WithKeptDims(g, ops, g.grad()), g.input(0)));
  return ops.status();
}

// How many elements of x make one of y, as a scalar of x's type; at least 1, since an empty mean has no gradient to
// divide.
Output ReducedCount(GradientContext& g, GradientOps& ops) {
  const Output x = g.input(0), y = g.output(0);
  if (x.shape().IsFullyKnown() && y.shape().IsFullyKnown())
    return ops.Scalar(x.dtype(), static_cast<double>(std::max<int64_t>(x.shape().elements(), 1)) /
                                     static_cast<double>(std::max<int64_t>(y.shape().elements(), 1)));
  const Output one = ops.Scalar(DType::kInt64, 1);
  const Output x_size = ops.Op("Maximum", {ops.Op("Size", {x}, {{"out_type", DType::kInt64}}), one});
  const Output y_size = ops.Op("Maximum", {ops.Op("Size", {y}, {{"out_type", DType::kInt64}}), one});
  return ops.Op("Cast", {ops.Op("FloorDiv", {x_size, y_size})}, {{"DstT", x.dtype()}});
}

Status MeanGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output share = ops.Div(g.grad(), ReducedCount(g, ops));
  g.set_input_grad(0, ops.BroadcastLike(WithKeptDims(g, ops, share), g.input(0)));
  return ops.status();
}

// Elements that tie for the extreme share the gradient equally, as in TensorFlow.
Status ExtremeGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0);
  const Output y = WithKeptDims(g, ops, g.output(0)), dy = WithKeptDims(g, ops, g.grad());
  const Output chosen = ops.Op("Cast", {ops.Op("Equal", {x, y})}, {{"DstT", x.dtype()}});
  const Output count = ops.Sum(chosen, g.input(1), /*keep_dims=*/true);
  g.set_input_grad(0, ops.Mul(chosen, ops.Div(dy, count)));
  return ops.status();
}

// The product of the other factors: of those before times those after, so that zeros need no care. The reduced axes are
// brought to the end and seen as one.
Status ProdGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0);
  const auto axes = ConstantIntegers(g.input(1));
  if (!axes || !x.shape().known_rank())
    return Unimplemented("the gradient of Prod with axes or a rank that are unknown when it is built");
  const int rank = x.shape().rank();
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (int64_t axis : *axes) {
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, rank));
    reduced[static_cast<size_t>(normal)] = true;
  }
  std::vector<int64_t> order, inverse(static_cast<size_t>(rank)), last;
  for (bool want : {false, true})
    for (int axis = 0; axis < rank; ++axis)
      if (reduced[static_cast<size_t>(axis)] == want) {
        inverse[static_cast<size_t>(axis)] = static_cast<int64_t>(order.size());
        order.push_back(axis);
        if (want) last.push_back(axis);
      }
  const Output moved = ops.Op("Transpose", {x, ops.Ints(order)});
  const Output count =
      ops.Op("Prod", {ops.Op("GatherV2", {ops.ShapeOf(x), ops.Ints(last), ops.Int(0)}), ops.Ints({0})});
  const Output kept = ops.Op("FloorDiv", {ops.Op("Size", {x}), ops.Op("Maximum", {count, ops.Int(1)})});
  const Output rows = ops.Op("Reshape", {moved, ops.Op("Pack", {kept, count})});
  const auto product = [&](bool reverse) {
    return ops.Op("Cumprod", {rows, ops.Int(1)}, {{"exclusive", true}, {"reverse", reverse}});
  };
  const Output others = ops.Op("Reshape", {ops.Mul(product(false), product(true)), ops.ShapeOf(moved)});
  g.set_input_grad(
      0, ops.Mul(WithKeptDims(g, ops, g.grad()), ops.ReshapeLike(ops.Op("Transpose", {others, ops.Ints(inverse)}), x)));
  return ops.status();
}

// DivNoNan gives 0 at the origin, where the norm has no gradient and the quotient would be NaN.
Status NormGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output y = WithKeptDims(g, ops, g.output(0)), dy = WithKeptDims(g, ops, g.grad());
  g.set_input_grad(0, ops.Mul(g.input(0), ops.Op("DivNoNan", {dy, y})));
  return ops.status();
}

#define RIVULET_REDUCTION_OP(name, types)      \
  RIVULET_OP(name)                             \
      .Input("input: T")                       \
      .Input("reduction_indices: Tidx")        \
      .Output("output: T")                     \
      .Attr("keep_dims: bool = false")         \
      .Attr("T: " types)                       \
      .Attr("Tidx: {int32, int64} = DT_INT32") \
      .Shape(ReductionShape)

RIVULET_REDUCTION_OP("Sum", "realnumbertype").Gradient(SumGradient).Doc("The sum over the given axes.");
RIVULET_REDUCTION_OP("Mean", "{half, bfloat16, float, double, int32, int64}")
    .Gradient(MeanGradient)
    .Doc("The mean over the given axes; of integers it is rounded towards 0.");
RIVULET_REDUCTION_OP("Max", "realnumbertype").Gradient(ExtremeGradient).Doc("The largest element over the given axes.");
RIVULET_REDUCTION_OP("Min", "realnumbertype")
    .Gradient(ExtremeGradient)
    .Doc("The smallest element over the given axes.");
RIVULET_REDUCTION_OP("Prod", "realnumbertype").Gradient(ProdGradient).Doc("The product over the given axes.");
RIVULET_REDUCTION_OP("EuclideanNorm", "floattype")
    .Gradient(NormGradient)
    .Doc("The square root of the sum of squares over the given axes. Its gradient at 0 is 0.");

#define RIVULET_LOGICAL_REDUCTION_OP(name)     \
  RIVULET_OP(name)                             \
      .Input("input: bool")                    \
      .Input("reduction_indices: Tidx")        \
      .Output("output: bool")                  \
      .Attr("keep_dims: bool = false")         \
      .Attr("Tidx: {int32, int64} = DT_INT32") \
      .Shape(ReductionShape)                   \
      .NotDifferentiable("its output is bool")

RIVULET_LOGICAL_REDUCTION_OP("All").Doc("Whether all elements over the given axes are true.");
RIVULET_LOGICAL_REDUCTION_OP("Any").Doc("Whether some element over the given axes is true.");

Status ArgShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 1));
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (x.rank() == 0) return InvalidArgument("a scalar has no axis to search");
  if (!axis) {
    c.set_output(0, Shape(std::vector<int64_t>(static_cast<size_t>(x.rank() - 1), kUnknownDim)));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, x.rank(), "dimension"));
  if (x.dim(normal) == 0) return InvalidArgument("axis {} of {} is empty: nothing to choose", *axis, x.ToString());
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  dims.erase(dims.begin() + normal);
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

#define RIVULET_ARG_OP(name)                          \
  RIVULET_OP(name)                                    \
      .Input("input: T")                              \
      .Input("dimension: Tidx")                       \
      .Output("output: output_type")                  \
      .Attr("T: realnumbertype")                      \
      .Attr("Tidx: {int32, int64} = DT_INT32")        \
      .Attr("output_type: {int32, int64} = DT_INT64") \
      .Shape(ArgShape)                                \
      .NotDifferentiable("its output is an index")

RIVULET_ARG_OP("ArgMax").Doc("The index of the largest element along an axis, the first where several tie.");
RIVULET_ARG_OP("ArgMin").Doc("The index of the smallest element along an axis, the first where several tie.");

}  // namespace
}  // namespace rivulet
