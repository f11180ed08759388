// The same elements in another order along an axis.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ReverseShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto axes, KnownIntegers(c, 1));
  if (axes && x.known_rank()) {
    std::vector<bool> seen(static_cast<size_t>(x.rank()), false);
    for (int64_t axis : *axes) {
      RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, x.rank()));
      if (seen[static_cast<size_t>(normal)]) return InvalidArgument("axis {} is given twice", axis);
      seen[static_cast<size_t>(normal)] = true;
    }
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

Status ReverseGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ReverseV2", {g.grad(), g.input(1)}));
  return ops.status();
}

Status ReverseSequenceShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  const int64_t seq_dim = c.attr<int64_t>("seq_dim"), batch_dim = c.attr<int64_t>("batch_dim");
  RIVULET_ASSIGN_OR_RETURN(const Shape lengths, c.WithRank(1, 1));
  if (x.known_rank()) {
    if (seq_dim < 0 || seq_dim >= x.rank() || batch_dim < 0 || batch_dim >= x.rank())
      return InvalidArgument("seq_dim {} and batch_dim {} must be axes of {}", seq_dim, batch_dim, x.ToString());
    if (seq_dim == batch_dim) return InvalidArgument("seq_dim and batch_dim are both {}", seq_dim);
    if (!Shape::Compatible(lengths, Shape({x.dim(static_cast<int>(batch_dim))})))
      return InvalidArgument("seq_lengths has {} entries for a batch of {}", lengths.dim(0),
                             x.dim(static_cast<int>(batch_dim)));
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

Status ReverseSequenceGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ReverseSequence", {g.grad(), g.input(1)},
                             {{"seq_dim", g.node()->attr<int64_t>("seq_dim")},
                              {"batch_dim", g.node()->attr<int64_t>("batch_dim")}}));
  return ops.status();
}

Status RollShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  if (!Shape::Compatible(c.input(1), c.input(2)))
    return InvalidArgument("shift {} and axis {} must have one shape", c.input(1).ToString(), c.input(2).ToString());
  if (x.known_rank() && x.rank() == 0) return InvalidArgument("a scalar cannot be rolled");
  RIVULET_ASSIGN_OR_RETURN(auto axes, KnownIntegers(c, 2));
  if (axes && x.known_rank())
    for (int64_t axis : *axes) RIVULET_RETURN_IF_ERROR(NormalizeAxis(axis, x.rank()).status());
  c.set_output(0, x);
  return absl::OkStatus();
}

Status RollGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Roll", {g.grad(), ops.Neg(g.input(1)), g.input(2)}));
  return ops.status();
}

RIVULET_OP("ReverseV2")
    .Input("tensor: T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(ReverseShape)
    .Gradient(ReverseGradient)
    .Doc("tensor with the given axes reversed. They must be known when a program is compiled.");

RIVULET_OP("ReverseSequence")
    .Input("input: T")
    .Input("seq_lengths: Tlen")
    .Output("output: T")
    .Attr("seq_dim: int")
    .Attr("batch_dim: int = 0")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tlen: {int32, int64} = DT_INT64")
    .Shape(ReverseSequenceShape)
    .Gradient(ReverseSequenceGradient)
    .Doc(
        "For each index i along batch_dim the first seq_lengths[i] slices along seq_dim are reversed, the others stay. "
        "A length outside [0, size of seq_dim] is an error.");

RIVULET_OP("Roll")
    .Input("input: T")
    .Input("shift: Tshift")
    .Input("axis: Taxis")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tshift: {int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(RollShape)
    .Gradient(RollGradient)
    .Doc(
        "The input with its elements rotated by shift along each axis. Shifts of an axis that is given several times "
        "add up. Both must be known when a program is compiled.");

}  // namespace
}  // namespace rivulet
