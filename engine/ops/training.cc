// Optimiser steps on variables.
#include <string>
#include <vector>

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
    .Attr("T: floattype")
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
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(MomentumShape)
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum = momentum * accum + grad; var -= lr * accum. With use_nesterov, var -= lr * (grad + momentum * "
        "accum).");

// Slots like the variable first, then scalars, then the gradient: how all of TensorFlow's optimisers are laid out.
template <size_t kSlots, size_t kScalars>
auto OptimizerShape(const char* const (&names)[kSlots + kScalars]) {
  std::vector<std::string> owned(names, names + kSlots + kScalars);
  return [owned](InferenceContext& c) -> Status {
    for (size_t i = 0; i < owned.size(); ++i) {
      const int input = static_cast<int>(i) + 1;
      RIVULET_RETURN_IF_ERROR(i < kSlots ? CheckLikeVariable(c, input, owned[i]) : CheckScalar(c, input, owned[i]));
    }
    return CheckLikeVariable(c, static_cast<int>(owned.size()) + 1, "grad");
  };
}

RIVULET_OP("ResourceApplyAdagrad")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(OptimizerShape<1, 1>({"accum", "lr"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc("accum += grad²; var -= lr * grad / √accum. Duchi et al., JMLR 12 (2011).");

RIVULET_OP("ResourceApplyAdagradV2")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(OptimizerShape<1, 2>({"accum", "lr", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc("accum += grad²; var -= lr * grad / (√accum + epsilon).");

RIVULET_OP("ResourceApplyAdadelta")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("accum_update: resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(OptimizerShape<2, 3>({"accum", "accum_update", "lr", "rho", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "accum = rho * accum + (1 - rho) * grad²; update = √(accum_update + epsilon) / √(accum + epsilon) * grad; "
        "accum_update = rho * accum_update + (1 - rho) * update²; var -= lr * update. Zeiler, arXiv 1212.5701.");

RIVULET_OP("ResourceApplyRMSProp")
    .Input("var: resource")
    .Input("ms: resource")
    .Input("mom: resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(OptimizerShape<2, 4>({"ms", "mom", "lr", "rho", "momentum", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "ms = rho * ms + (1 - rho) * grad²; mom = momentum * mom + lr * grad / √(ms + epsilon); var -= mom. Tieleman "
        "and Hinton, lecture 6e of Neural Networks for Machine Learning (2012).");

RIVULET_OP("ResourceApplyCenteredRMSProp")
    .Input("var: resource")
    .Input("mg: resource")
    .Input("ms: resource")
    .Input("mom: resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(OptimizerShape<3, 4>({"mg", "ms", "mom", "lr", "rho", "momentum", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "As ResourceApplyRMSProp with mg = rho * mg + (1 - rho) * grad and ms - mg² + epsilon, an estimate of the "
        "variance, under the root. Graves, arXiv 1308.0850.");

RIVULET_OP("ResourceApplyAdam")
    .Input("var: resource")
    .Input("m: resource")
    .Input("v: resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(OptimizerShape<2, 6>({"m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "Adam: m = beta1 * m + (1 - beta1) * grad; v = beta2 * v + (1 - beta2) * grad². The step is var -= alpha * m / "
        "(√v + epsilon) with alpha = lr * √(1 - beta2_power) / (1 - beta1_power). With use_nesterov, m is replaced "
        "there by beta1 * m + (1 - beta1) * grad. Kingma and Ba, ICLR 2015, in the form that ends their section 2: "
        "this epsilon is √(1 - beta2_power) times that of their algorithm 1.");

RIVULET_OP("ResourceApplyAdamW")
    .Input("var: resource")
    .Input("m: resource")
    .Input("v: resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("weight_decay: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(OptimizerShape<2, 7>({"m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon",
                                 "weight_decay"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "ResourceApplyAdam on var * (1 - lr * weight_decay): weight decay apart from the gradient. Loshchilov and "
        "Hutter, ICLR 2019. TensorFlow has no such op.");

RIVULET_OP("ResourceApplyYogi")
    .Input("var: resource")
    .Input("m: resource")
    .Input("v: resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: floattype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(OptimizerShape<2, 6>({"m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"}))
    .NotDifferentiable("it has an effect and no output")
    .Doc(
        "As ResourceApplyAdam with v += (1 - beta2) * sign(grad² - v) * grad². Zaheer et al., NeurIPS 2018. TensorFlow "
        "has no such op.");

}  // namespace
}  // namespace rivulet
