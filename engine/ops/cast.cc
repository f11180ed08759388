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

#define RIVULET_ANY "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool}"

RIVULET_OP("Cast")
    .Input("x: SrcT")
    .Output("y: DstT")
    .Attr("SrcT: " RIVULET_ANY)
    .Attr("DstT: " RIVULET_ANY)
    .Attr("Truncate: bool = false")
    .Shape(SameAsInput(0))
    .Gradient(CastGradient)
    .Doc(
        "x in another type. Floating to integer rounds towards zero and is clamped to the type's range, NaN to 0; "
        "anything but 0 is true. To a smaller floating type it rounds to the nearest, ties to even; float64 goes to 16 "
        "bits by way of float32.");

}  // namespace
}  // namespace rivulet
