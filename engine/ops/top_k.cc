// The largest elements of the last axis.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status TopKShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const auto k, KnownInteger(c, 1));
  if (k && *k < 0) return InvalidArgument("k is {}, below 0", *k);
  if (!x.known_rank()) {
    for (int port : {0, 1}) c.set_output(port, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (x.rank() < 1) return InvalidArgument("a scalar has no axis to search");
  const int64_t size = x.dim(x.rank() - 1);
  if (k && size != kUnknownDim && *k > size)
    return InvalidArgument("the last axis of {} has fewer than k = {} elements", x.ToString(), *k);
  Shape chosen = x;
  chosen.set_dim(x.rank() - 1, k ? *k : kUnknownDim);
  for (int port : {0, 1}) c.set_output(port, chosen);
  return absl::OkStatus();
}

Status TopKGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ScatterAlongAxis", {ops.ZerosLike(g.input(0)), g.output(1), g.grad(0)},
                             {{"axis", int64_t{-1}}, {"reduction", std::string("add")}}));
  return ops.status();
}

RIVULET_OP("TopKV2")
    .Input("input: T")
    .Input("k: Tk")
    .Output("values: T")
    .Output("indices: index_type")
    .Attr("sorted: bool = true")
    .Attr("T: realnumbertype")
    .Attr("Tk: {int32, int64} = DT_INT32")
    .Attr("index_type: {int32, int64} = DT_INT32")
    .Shape(TopKShape)
    .Gradient(TopKGradient)
    .Doc(
        "The k largest elements of the last axis and where they stand, the largest first (also without sorted), of "
        "equal ones the lower index. NaN counts as larger than every number. k must be known when a program is "
        "compiled.");

}  // namespace
}  // namespace rivulet
