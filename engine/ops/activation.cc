// Activation functions and their gradients that are single ops in TensorFlow.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_FLOATS "floattype"

Status ReluGradient(GradientContext& g) {
  GradientOps ops(g);
  // The output serves as well as the input: where it is exactly zero nothing passes.
  g.set_input_grad(0, ops.Op("ReluGrad", {g.grad(), g.output(0)}));
  return ops.status();
}

Status ReluGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("ReluGrad", {g.grad(), g.input(1)}));
  return ops.status();
}

Status TanhGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("TanhGrad", {g.output(0), g.grad()}));
  return ops.status();
}

// dy · (1 - y²): its derivatives by y and dy.
Status TanhGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output y = g.input(0), dy = g.input(1);
  g.set_input_grad(0, ops.Mul(ops.Scale(ops.Mul(g.grad(), dy), -2), y));
  g.set_input_grad(1, ops.Op("TanhGrad", {y, g.grad()}));
  return ops.status();
}

Status SigmoidGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("SigmoidGrad", {g.output(0), g.grad()}));
  return ops.status();
}

// dy · y (1 - y): its derivatives by y and dy.
Status SigmoidGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output y = g.input(0), dy = g.input(1);
  const Output product = ops.Mul(g.grad(), dy);
  g.set_input_grad(0, ops.Sub(product, ops.Mul(ops.Scale(product, 2), y)));
  g.set_input_grad(1, ops.Op("SigmoidGrad", {y, g.grad()}));
  return ops.status();
}

Status SoftplusGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("SoftplusGrad", {g.grad(), g.input(0)}));
  return ops.status();
}

// gradients · sigmoid(features): its derivatives by both.
Status SoftplusGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output dy = g.input(0), features = g.input(1);
  g.set_input_grad(0, ops.Op("SoftplusGrad", {g.grad(), features}));
  g.set_input_grad(1, ops.Op("SigmoidGrad", {ops.Op("Sigmoid", {features}), ops.Mul(g.grad(), dy)}));
  return ops.status();
}

RIVULET_OP("Relu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(SameAsInput(0))
    .Gradient(ReluGradient)
    .Doc("max(features, 0).");

RIVULET_OP("ReluGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(AllSameShape)
    .Gradient(ReluGradGradient)
    .Doc("gradients where features > 0, else 0; features may be Relu's input or its output.");

RIVULET_OP("Tanh")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(SameAsInput(0))
    .Gradient(TanhGradient)
    .Doc("The hyperbolic tangent of x.");

RIVULET_OP("TanhGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(AllSameShape)
    .Gradient(TanhGradGradient)
    .Doc("dy * (1 - y^2): the gradient of y = tanh(x).");

RIVULET_OP("Sigmoid")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(SameAsInput(0))
    .Gradient(SigmoidGradient)
    .Doc("1 / (1 + e^-x).");

RIVULET_OP("SigmoidGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(AllSameShape)
    .Gradient(SigmoidGradGradient)
    .Doc("dy * y * (1 - y): the gradient of y = sigmoid(x).");

RIVULET_OP("Softplus")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(SameAsInput(0))
    .Gradient(SoftplusGradient)
    .Doc("log(1 + e^features).");

RIVULET_OP("SoftplusGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: " RIVULET_FLOATS)
    .Shape(AllSameShape)
    .Gradient(SoftplusGradGradient)
    .Doc("gradients / (1 + e^-features): the gradient of softplus.");

}  // namespace
}  // namespace rivulet
