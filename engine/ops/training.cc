// Optimiser steps on variables.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckScalar(const InferenceContext& c, int i, std::string_view what) {
  if (c.input(i).known_rank() && c.input(i).rank() != 0)
    return InvalidArgument("{} must be a scalar, not of shape {}", what, c.input(i).ToString());
  return absl::OkStatus();
}

Status CheckLikeVariable(const InferenceContext& c, int i, std::string_view what) {
  if (!Shape::Compatible(c.input(0), c.input(i)))
    return InvalidArgument("{} of shape {} does not fit the variable's, {}", what, c.input(i).ToString(),
                           c.input(0).ToString());
  return absl::OkStatus();
}

Status GradientDescentShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalar(c, 1, "alpha"));
  return CheckLikeVariable(c, 2, "delta");
}

Status MomentumShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckLikeVariable(c, 1, "accum"));
  RIVULET_RETURN_IF_ERROR(CheckScalar(c, 2, "lr"));
  RIVULET_RETURN_IF_ERROR(CheckLikeVariable(c, 3, "grad"));
  return CheckScalar(c, 4, "momentum");
}

RIVULET_OP("ResourceApplyGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("delta: T")
    .Attr("T: {float, double}")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(GradientDescentShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc("var -= alpha * delta.");

RIVULET_OP("ResourceApplyMomentum")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Input("momentum: T")
    .Attr("T: {float, double}")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(MomentumShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum = momentum * accum + grad; var -= lr * accum. With use_nesterov, var -= lr * (grad + momentum * "
        "accum).");

}  // namespace
}  // namespace rivulet
