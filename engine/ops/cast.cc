// Changes of element type.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CastGradient(GradientContext& g) {
  if (!IsFloating(g.input(0).dtype())) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Cast", {g.grad()}, {{"DstT", g.input(0).dtype()}}));
  return ops.status();
}

RIVULET_OP("Cast")
    .Input("x: SrcT")
    .Output("y: DstT")
    .Attr("SrcT: {float, double, int32, int64, uint8, bool}")
    .Attr("DstT: {float, double, int32, int64, uint8, bool}")
    .Attr("Truncate: bool = false")
    .Shape(SameAsInput(0))
    .Gradient(CastGradient)
    .Doc(
        "x in another type. Floating to integer rounds towards zero and is clamped to the type's range, NaN to 0; "
        "anything but 0 is true.");

}  // namespace
}  // namespace rivulet
