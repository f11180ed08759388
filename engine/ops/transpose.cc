// Permutations of axes.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status TransposeShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto perm, KnownIntegers(c, 1));
  if (perm && x.known_rank()) {
    if (static_cast<int>(perm->size()) != x.rank())
      return InvalidArgument("the permutation has {} axes, but x {} has {}", perm->size(), x.ToString(), x.rank());
    std::vector<int64_t> dims(perm->size(), 0);
    std::vector<bool> seen(perm->size(), false);
    for (size_t i = 0; i < perm->size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*perm)[i], x.rank(), "permuted axis"));
      if (seen[static_cast<size_t>(axis)]) return InvalidArgument("the permutation names axis {} twice", axis);
      seen[static_cast<size_t>(axis)] = true;
      dims[i] = x.dim(axis);
    }
    c.set_output(0, Shape(std::move(dims)));
    return absl::OkStatus();
  }
  const int64_t rank = x.known_rank() ? x.rank() : perm ? static_cast<int64_t>(perm->size()) : kUnknownDim;
  c.set_output(0, rank == kUnknownDim ? Shape::UnknownRank()
                                      : Shape(std::vector<int64_t>(static_cast<size_t>(rank), kUnknownDim)));
  return absl::OkStatus();
}

Status TransposeGradient(GradientContext& g) {
  GradientOps ops(g);
  const auto perm = ConstantIntegers(g.input(1));
  Output inverse;
  if (perm) {
    std::vector<int64_t> inverted(perm->size());
    const auto rank = static_cast<int64_t>(perm->size());
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t axis = (*perm)[static_cast<size_t>(i)];
      inverted[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = i;
    }
    inverse = ops.Ints(std::move(inverted));
  } else {
    inverse = ops.Op("InvertPermutation", {g.input(1)});
  }
  g.set_input_grad(0, ops.Op("Transpose", {g.grad(), inverse}));
  return ops.status();
}

Status VectorLikeInput(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape vector, c.WithRank(0, 1));
  c.set_output(0, std::move(vector));
  return absl::OkStatus();
}

RIVULET_OP("Transpose")
    .Input("x: T")
    .Input("perm: Tperm")
    .Output("y: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tperm: {int32, int64} = DT_INT32")
    .Shape(TransposeShape)
    .Gradient(TransposeGradient)
    .Doc("x with its axes permuted: axis i of y is axis perm[i] of x. perm must be known when a program is compiled.");

RIVULET_OP("InvertPermutation")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(VectorLikeInput)
    .NotDifferentiable("its output is a permutation")
    .Doc("y with y[x[i]] = i.");

}  // namespace
}  // namespace rivulet
