// Variables. A handle is known when a program is compiled and is never a value at run time; in shape inference the
// shape of a handle is the shape of its variable, so that a read knows it.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status VarHandleShape(InferenceContext& c) {
  c.set_output(0, c.attr<Shape>("shape"));
  return absl::OkStatus();
}

Status ReadShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// The value has the variable's shape.
Status AssignShape(InferenceContext& c) {
  if (!Shape::Compatible(c.input(0), c.input(1)))
    return InvalidArgument("a value of shape {} cannot be assigned to a variable of shape {}", c.input(1).ToString(),
                           c.input(0).ToString());
  return absl::OkStatus();
}

RIVULET_OP("VarHandleOp")
    .Output("resource: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Stateful()
    .Shape(VarHandleShape)
    .Gradient(NoGradient)
    .Doc("The handle of a variable; its name is `shared_name`, or the node's where that is empty.");

RIVULET_OP("ReadVariableOp")
    .Input("resource: resource")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape(ReadShape)
    .Gradient(NoGradient)
    .Doc("The variable's value at this point of the run.");

RIVULET_OP("AssignVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Attr("validate_shape: bool = false")
    .Stateful()
    .Shape(AssignShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc("Sets the variable to `value`.");

RIVULET_OP("AssignAddVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape(AssignShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc("Adds `value` to the variable.");

RIVULET_OP("AssignSubVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape(AssignShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc("Subtracts `value` from the variable.");

RIVULET_OP("VarIsInitializedOp")
    .Input("resource: resource")
    .Output("is_initialized: bool")
    .Stateful()
    .Shape(ScalarShape)
    .NotDifferentiable("it has no numeric input")
    .Doc("Whether the variable has a value at this point of the run. Sessions run it.");

}  // namespace
}  // namespace rivulet
