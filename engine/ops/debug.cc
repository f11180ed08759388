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
        "The unchanged input. Each run that needs the output writes a line to standard error. The line has message and "
        "the first `summarize` elements (all, if below 0) of each tensor in data. With first_n >= 0 each running "
        "program writes only the first n lines.");

RIVULET_OP("Assert")
    .Input("condition: bool")
    .Input("data: T")
    .Attr("T: list(type) >= 0")
    .Attr("summarize: int = 3")
    .Shape(AssertShape)
    .NotDifferentiable("it has no output")
    .Stateful()
    .Doc(
        "Ends the run with an error if condition is false. The error names the node and the first `summarize` elements "
        "(all, if below 0) of each tensor in data. The op runs only as a target or as the source of a control edge.");

}  // namespace
}  // namespace rivulet
