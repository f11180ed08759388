// The arguments of functions.
#include "engine/graph/op.h"
#include "engine/ops/gradient_ops.h"

namespace rivulet {
namespace {

Status ArgumentShape(InferenceContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

RIVULET_OP("_Arg")
    .Output("output: T")
    .Attr("T: type")
    .Attr("index: int >= 0")
    .Attr("shape: shape = { unknown_rank: true }")
    .Shape(ArgumentShape)
    .Gradient(NoGradient)
    .Doc("Argument `index` of the function whose body this node is in.");

}  // namespace
}  // namespace rivulet
