// Looking inside a running graph.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status AssertShape(InferenceContext& c) { return c.WithRank(0, 0).status(); }

RIVULET_OP("Print")
    .Input("input: T")
    .Input("data: U")
    .Output("output: T")
    .Attr("T: type")
    .Attr("U: list(type) >= 0")
    .Attr("message: string = ''")
    .Attr("first_n: int = -1")
    .Attr("summarize: int = 3")
    .Shape(SameAsInput(0))
    .Gradient(PassGradient)
    .Stateful()
    .Doc(
        "input as it is; each run that needs the output writes a line to standard error: message, and the first "
        "`summarize` elements (all, if below 0) of each tensor in data. first_n >= 0 writes only the first n times of "
        "each running program.");

RIVULET_OP("Assert")
    .Input("condition: bool")
    .Input("data: T")
    .Attr("T: list(type) >= 0")
    .Attr("summarize: int = 3")
    .Shape(AssertShape)
    .NotDifferentiable("it has no output")
    .Stateful()
    .Doc(
        "Ends the run with an error where condition is false, naming the node and the first `summarize` elements (all, "
        "if below 0) of each tensor in data. It runs where something waits for it: a target or a control edge.");

}  // namespace
}  // namespace rivulet
