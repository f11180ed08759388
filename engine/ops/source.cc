// Where values enter a graph, and the ops that only pass them on.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ConstShape(InferenceContext& c) {
  const Tensor& value = c.attr<Tensor>("value");
  if (value.dtype() != c.attr<DType>("dtype"))
    return InvalidArgument("the value is {}, but attribute 'dtype' is {}", Name(value.dtype()),
                           Name(c.attr<DType>("dtype")));
  c.set_output(0, value.shape());
  return absl::OkStatus();
}

Status ShapeAttribute(InferenceContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

Status PlaceholderWithDefaultShape(InferenceContext& c) {
  const Shape& shape = c.attr<Shape>("shape");
  if (!Shape::Compatible(c.input(0), shape))
    return InvalidArgument("the default of shape {} does not fit attribute 'shape', {}", c.input(0).ToString(),
                           shape.ToString());
  c.set_output(0, shape);
  return absl::OkStatus();
}

Status SameAsInputs(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

Status PassAllGradients(GradientContext& g) {
  for (int i = 0; i < static_cast<int>(g.node()->inputs().size()); ++i)
    if (g.grad(i)) g.set_input_grad(i, g.grad(i));
  return absl::OkStatus();
}

RIVULET_OP("Const")
    .Output("output: dtype")
    .Attr("value: tensor")
    .Attr("dtype: type")
    .Shape(ConstShape)
    .Gradient(NoGradient)
    .Doc("The constant `value`.");

RIVULET_OP("Placeholder")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .Shape(ShapeAttribute)
    .Gradient(NoGradient)
    .Doc("A value that every run is fed; its shape may be partly unknown until then.");

RIVULET_OP("PlaceholderWithDefault")
    .Input("input: dtype")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Shape(PlaceholderWithDefaultShape)
    .Gradient(PassGradient)
    .Doc("`input`, unless a run feeds another value.");

RIVULET_OP("NoOp").Shape(NoOutputs).Gradient(NoGradient).Doc("Does nothing; its control inputs run first.");

RIVULET_OP("Identity")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SameAsInput(0))
    .Gradient(PassGradient)
    .Doc("Its input, unchanged.");

RIVULET_OP("IdentityN")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: list(type) >= 1")
    .Shape(SameAsInputs)
    .Gradient(PassAllGradients)
    .Doc("Its inputs, unchanged.");

RIVULET_OP("StopGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SameAsInput(0))
    .Gradient(NoGradient)
    .Doc("Its input, which gradients take for a constant.");

}  // namespace
}  // namespace rivulet
