// Whether numbers are numbers: what loss scaling asks of gradients.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

RIVULET_OP("AllFinite")
    .Input("x: T")
    .Output("finite: bool")
    .Attr("T: floattype")
    .Shape([](InferenceContext& c) {
      c.set_output(0, Shape{});
      return absl::OkStatus();
    })
    .NotDifferentiable("its value is a truth value")
    .Doc("Whether no element of x is infinite or NaN. True of an empty x.");

}  // namespace
}  // namespace rivulet
