// Activations, softmaxes and the losses made of them.
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

#define RIVULET_ACTIVATION(op, expression) \
  RIVULET_ONNX_EXPORT(op, [](ExportContext& n) { return Elementwise(n, [&](const Value& x) { return expression; }); })

RIVULET_ACTIVATION("Relu", n.Op("Relu", {x}));
RIVULET_ACTIVATION("Relu6", n.Op("Clip", {x, n.Scalar(n.dtype(0), 0), n.Scalar(n.dtype(0), 6)}));
RIVULET_ACTIVATION("LeakyRelu", n.Op("LeakyRelu", {x}, {{"alpha", n.attr<float>("alpha")}}));
RIVULET_ACTIVATION("Elu", n.Op("Elu", {x}));
RIVULET_ACTIVATION("Selu", n.Op("Selu", {x}));
RIVULET_ACTIVATION("Sigmoid", n.Op("Sigmoid", {x}));
RIVULET_ACTIVATION("Tanh", n.Op("Tanh", {x}));
RIVULET_ACTIVATION("Softplus", n.Op("Softplus", {x}));
RIVULET_ACTIVATION("Softsign", n.Op("Softsign", {x}));

// ONNX has an operator for it since opset 20.
Value Gelu(const ExportContext& n, const Value& x) {
  const auto scalar = [&](double value) { return n.Scalar(n.dtype(0), value); };
  Value share;  // 2 P(X <= x)
  if (n.attr<bool>("approximate")) {
    const Value cube = n.Op("Mul", {n.Op("Mul", {x, x}), x});
    const Value inner = n.Op("Add", {x, n.Op("Mul", {cube, scalar(0.044715)})});
    share = n.Op("Tanh", {n.Op("Mul", {inner, scalar(0.79788456080286535588)})});
  } else {
    share = n.Op("Erf", {n.Op("Mul", {x, scalar(0.70710678118654752440)})});
  }
  return n.Op("Mul", {n.Op("Mul", {x, scalar(0.5)}), n.Op("Add", {share, scalar(1)})});
}
RIVULET_ACTIVATION("Gelu", Gelu(n, x));

// Over the last axis.
Status Softmax(ExportContext& n) {
  n.set_output(0, n.Op(n.type(), {n.input(0)}, {{"axis", int64_t{-1}}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Softmax", Softmax);
RIVULET_ONNX_EXPORT("LogSoftmax", Softmax);

RIVULET_ONNX_EXPORT("SparseSoftmaxCrossEntropyWithLogits", [](ExportContext& n) {
  RIVULET_RETURN_IF_ERROR(n.RefuseOutput(1, "the gradient"));
  n.set_output(0, n.Op("SoftmaxCrossEntropyLoss", {n.input(0), n.input(1)}, {{"reduction", std::string("none")}}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("SoftmaxCrossEntropyWithLogits", [](ExportContext& n) {
  RIVULET_RETURN_IF_ERROR(n.RefuseOutput(1, "the gradient"));
  const Value logs = n.Op("LogSoftmax", {n.input(0)}, {{"axis", int64_t{-1}}});
  const Value sum = n.Op("ReduceSum", {n.Op("Mul", {n.input(1), logs}), n.Ints({-1})}, {{"keepdims", false}});
  n.set_output(0, n.Op("Neg", {sum}));
  return absl::OkStatus();
});

}  // namespace
}  // namespace rivulet::onnx
