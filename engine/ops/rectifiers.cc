// Activation functions beyond Relu, Tanh and Sigmoid, and their gradients. Those that are built of other ops (Swish,
// HardSwish, Mish) are functions in engine/layers/activations.h.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_FLOATS "floattype"

AttrMap Alpha(GradientContext& g) { return {{"alpha", g.node()->attr<float>("alpha")}}; }

// The gradient op takes (gradients, features).
GradientFn FromFeatures(std::string_view op) {
  return [op](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(op, {g.grad(), g.input(0)}));
    return ops.status();
  };
}
// The gradient op takes (gradients, outputs).
GradientFn FromOutputs(std::string_view op) {
  return [op](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(op, {g.grad(), g.output(0)}));
    return ops.status();
  };
}

Status LeakyReluGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("LeakyReluGrad", {g.grad(), g.input(0)}, Alpha(g)));
  return ops.status();
}

// Gradient ops are linear in their gradients, and these are constant in the other input almost everywhere.
Status Relu6GradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Relu6Grad", {g.grad(), g.input(1)}));
  return ops.status();
}
Status LeakyReluGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("LeakyReluGrad", {g.grad(), g.input(1)}, Alpha(g)));
  return ops.status();
}

// gradients · (outputs + constant) where outputs < 0, linear elsewhere.
GradientFn BelowZeroGradient(std::string_view op) {
  return [op](GradientContext& g) {
    GradientOps ops(g);
    const Output gradients = g.input(0), outputs = g.input(1);
    g.set_input_grad(0, ops.Op(op, {g.grad(), outputs}));
    const Output below = ops.Op("Less", {outputs, ops.Scalar(outputs.dtype(), 0)});
    g.set_input_grad(1, ops.Op("SelectV2", {below, ops.Mul(g.grad(), gradients), ops.ZerosLike(outputs)}));
    return ops.status();
  };
}

// gradients / (1 + |x|)²: by x, -2 gradients sign(x) / (1 + |x|)³.
Status SoftsignGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output gradients = g.input(0), x = g.input(1);
  g.set_input_grad(0, ops.Op("SoftsignGrad", {g.grad(), x}));
  const Output one_plus = ops.Add(ops.Op("Abs", {x}), ops.Scalar(x.dtype(), 1));
  const Output twice = ops.Mul(ops.Scale(ops.Mul(g.grad(), gradients), -2), ops.Op("Sign", {x}));
  g.set_input_grad(1, ops.Op("SoftsignGrad", {ops.Div(twice, one_plus), x}));
  return ops.status();
}

AttrMap Approximate(GradientContext& g) { return {{"approximate", g.node()->attr<bool>("approximate")}}; }

Status GeluGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("GeluGrad", {g.grad(), g.input(0)}, Approximate(g)));
  return ops.status();
}

Status GeluGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output gradients = g.input(0), x = g.input(1);
  g.set_input_grad(0, ops.Op("GeluGrad", {g.grad(), x}, Approximate(g)));
  const DType dtype = x.dtype();
  Output second;
  if (!g.node()->attr<bool>("approximate")) {
    // (Φ + xφ)' = φ (2 - x²).
    const Output density = ops.Scale(ops.Op("Exp", {ops.Scale(ops.Square(x), -0.5)}), 0.39894228040143267794);
    second = ops.Mul(density, ops.Sub(ops.Scalar(dtype, 2), ops.Square(x)));
  } else {
    // With t = tanh(u): (1 - t²) (u' + x u'' / 2 - x t u'²).
    constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;
    const Output square = ops.Square(x), one = ops.Scalar(dtype, 1);
    const Output u = ops.Scale(ops.Mul(x, ops.Add(one, ops.Scale(square, kCubic))), kScale);
    const Output slope = ops.Scale(ops.Add(one, ops.Scale(square, 3 * kCubic)), kScale);
    const Output t = ops.Op("Tanh", {u});
    const Output bend = ops.Scale(square, 3 * kCubic * kScale);  // x u'' / 2
    const Output inner = ops.Sub(ops.Add(slope, bend), ops.Mul(ops.Mul(x, t), ops.Square(slope)));
    second = ops.Op("TanhGrad", {t, inner});
  }
  g.set_input_grad(1, ops.Mul(ops.Mul(g.grad(), gradients), second));
  return ops.status();
}

#define RIVULET_ACTIVATION(name) \
  RIVULET_OP(name).Input("features: T").Output("activations: T").Attr("T: " RIVULET_FLOATS).Shape(SameAsInput(0))
#define RIVULET_ACTIVATION_GRAD(name, second) \
  RIVULET_OP(name)                            \
      .Input("gradients: T")                  \
      .Input(second ": T")                    \
      .Output("backprops: T")                 \
      .Attr("T: " RIVULET_FLOATS)             \
      .Shape(AllSameShape)

RIVULET_ACTIVATION("Relu6").Gradient(FromOutputs("Relu6Grad")).Doc("min(max(features, 0), 6).");
RIVULET_ACTIVATION_GRAD("Relu6Grad", "features")
    .Gradient(Relu6GradGradient)
    .Doc("gradients where 0 < features < 6, else 0; features may be Relu6's input or its output.");

RIVULET_ACTIVATION("LeakyRelu")
    .Attr("alpha: float = 0.2")
    .Gradient(LeakyReluGradient)
    .Doc("features where they are above 0, else alpha * features.");
RIVULET_ACTIVATION_GRAD("LeakyReluGrad", "features")
    .Attr("alpha: float = 0.2")
    .Gradient(LeakyReluGradGradient)
    .Doc("gradients where features > 0, else alpha * gradients.");

RIVULET_ACTIVATION("Elu").Gradient(FromOutputs("EluGrad")).Doc("features where they are above 0, else e^features - 1.");
RIVULET_ACTIVATION_GRAD("EluGrad", "outputs")
    .Gradient(BelowZeroGradient("EluGrad"))
    .Doc("gradients * (outputs + 1) where outputs < 0, else gradients: the gradient of outputs = elu(features).");

RIVULET_ACTIVATION("Selu")
    .Gradient(FromOutputs("SeluGrad"))
    .Doc(
        "scale * features where they are above 0, else scale * alpha * (e^features - 1), with scale = 1.0507… and "
        "alpha = 1.6733…, which keep activations normalised.");
RIVULET_ACTIVATION_GRAD("SeluGrad", "outputs")
    .Gradient(BelowZeroGradient("SeluGrad"))
    .Doc("gradients * (outputs + scale * alpha) where outputs < 0, else gradients * scale.");

RIVULET_ACTIVATION("Softsign").Gradient(FromFeatures("SoftsignGrad")).Doc("features / (|features| + 1).");
RIVULET_ACTIVATION_GRAD("SoftsignGrad", "features")
    .Gradient(SoftsignGradGradient)
    .Doc("gradients / (1 + |features|)^2: the gradient of softsign.");

RIVULET_ACTIVATION("Gelu")
    .Attr("approximate: bool = false")
    .Gradient(GeluGradient)
    .Doc(
        "features * P(X <= features) for a standard normal X; with approximate, P by a formula with tanh. Not an op of "
        "TensorFlow, which composes it.");
RIVULET_ACTIVATION_GRAD("GeluGrad", "features")
    .Attr("approximate: bool = false")
    .Gradient(GeluGradGradient)
    .Doc("gradients times the derivative of Gelu at features.");

}  // namespace
}  // namespace rivulet
