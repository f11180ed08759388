// An op of one's own, Sine: y = sin(omega · x), the activation of sinusoidal representation networks (Sitzmann et al.,
// 2020, arXiv:2006.09661). Its signature, shape and gradient first, its kernel below.
#include <cmath>

#include "engine/graph/op.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/program/kernel.h"
#include "engine/program/op_library.h"

RIVULET_OP_LIBRARY("The activation of sinusoidal representation networks.");

namespace rivulet {
namespace {

// dy/dx = omega · cos(omega · x), of ops that have gradients themselves.
Status SineGradient(GradientContext& g) {
  GradientOps ops(g);
  const double omega = g.node()->attr<float>("omega");
  const Output slope = ops.Scale(ops.Op("Cos", {ops.Scale(g.input(0), omega)}), omega);
  g.set_input_grad(0, ops.Mul(g.grad(), slope));
  return ops.status();
}

RIVULET_OP("Sine")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("omega: float = 30.0")
    .Shape(SameAsInput(0))
    .Gradient(SineGradient)
    .Doc("sin(omega * x), element by element.");

class SineKernel final : public Kernel {
 public:
  SineKernel(float omega, int64_t count) : omega_(omega), count_(count) {}
  Status Run(const KernelContext& context) const override {
    const auto* x = reinterpret_cast<const float*>(context.inputs[0]);
    auto* y = reinterpret_cast<float*>(context.outputs[0]);
    for (int64_t i = 0; i < count_; ++i) y[i] = std::sin(omega_ * x[i]);
    return absl::OkStatus();
  }

 private:
  const float omega_;
  const int64_t count_;
};

StatusOr<Prepared> PrepareSine(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<SineKernel>(node.attr<float>("omega"), node.outputs[0].shape.elements());
  prepared.in_place = {{0, 0}};  // an element is read before its place is written
  prepared.implementation = "sine";
  return prepared;
}

RIVULET_KERNEL("Sine", Device::kCpu, float, PrepareSine);

}  // namespace
}  // namespace rivulet
