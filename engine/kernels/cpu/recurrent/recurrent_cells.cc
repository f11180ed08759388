// TensorFlow's fused cells: one step of an LSTM or a GRU.
#include "engine/kernels/cpu/recurrent/lstm_block.h"

namespace rivulet {
namespace {

template <typename T>
class LstmCellKernel final : public Kernel {
 public:
  LstmCellKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : batch_(node.inputs[0].shape.dim(0)),
        units_(node.outputs[0].shape.dim(1)),
        product_{batch_, node.inputs[0].shape.dim(1), units_, 4 * units_, portable},
        step_(node, units_, static_cast<T>(node.attr<float>("forget_bias")), false),
        gates_(scratch.Add(batch_ * 4 * units_)),
        part_(scratch.Add(batch_ * 4 * units_)) {}

  Status Run(const KernelContext& context) const override {
    T *gates = As<T>(context.scratch) + gates_, *part = As<T>(context.scratch) + part_;
    product_(InputOf<T>(context, 0), InputOf<T>(context, 2), InputOf<T>(context, 3), InputOf<T>(context, 7), part,
             gates);
    for (int64_t row = 0; row < batch_; ++row) {
      const auto out = [&](size_t port) { return OutputOf<T>(context, port) + row * units_; };
      step_(gates + row * 4 * units_, InputOf<T>(context, 1) + row * units_,
            {InputOf<T>(context, 4), InputOf<T>(context, 5), InputOf<T>(context, 6)},
            {out(0), out(1), out(2), out(3), out(4), out(5), out(6)});
    }
    return absl::OkStatus();
  }

 private:
  int64_t batch_, units_;
  JointProduct<T> product_;
  LstmBlockStep<T> step_;
  size_t gates_, part_;
};

template <typename T>
class GruCellKernel final : public Kernel {
 public:
  GruCellKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : batch_(node.inputs[0].shape.dim(0)),
        units_(node.outputs[0].shape.dim(1)),
        gate_product_{batch_, node.inputs[0].shape.dim(1), units_, 2 * units_, portable},
        candidate_product_{batch_, node.inputs[0].shape.dim(1), units_, units_, portable},
        gates_(scratch.Add(batch_ * 2 * units_)),
        part_(scratch.Add(batch_ * 2 * units_)),
        reset_(scratch.Add(batch_ * units_)) {}

  Status Run(const KernelContext& context) const override {
    T *gates = As<T>(context.scratch) + gates_, *part = As<T>(context.scratch) + part_;
    T* reset = As<T>(context.scratch) + reset_;
    const T *x = InputOf<T>(context, 0), *old = InputOf<T>(context, 1);
    T *r = OutputOf<T>(context, 0), *u = OutputOf<T>(context, 1), *c = OutputOf<T>(context, 2);
    T* h = OutputOf<T>(context, 3);
    gate_product_(x, old, InputOf<T>(context, 2), InputOf<T>(context, 4), part, gates);
    sigmoid_.Apply(gates, batch_ * 2 * units_);
    for (int64_t row = 0; row < batch_; ++row) {
      std::copy_n(gates + row * 2 * units_, units_, r + row * units_);
      std::copy_n(gates + row * 2 * units_ + units_, units_, u + row * units_);
    }
    const int64_t count = batch_ * units_;
    for (int64_t i = 0; i < count; ++i) reset[i] = old[i] * r[i];
    candidate_product_(x, reset, InputOf<T>(context, 3), InputOf<T>(context, 5), part, c);
    tanh_.Apply(c, count);
    for (int64_t i = 0; i < count; ++i) h[i] = u[i] * old[i] + (1 - u[i]) * c[i];
    return absl::OkStatus();
  }

 private:
  int64_t batch_, units_;
  JointProduct<T> gate_product_, candidate_product_;
  size_t gates_, part_, reset_;
  Gate<T> sigmoid_{"sigmoid", 0}, tanh_{"tanh", 0};
};

template <typename T, template <typename> class K>
StatusOr<Prepared> PrepareCell(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<K<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  return prepared;
}

RIVULET_KERNEL("LSTMBlockCell", Device::kCpu, float, (PrepareCell<float, LstmCellKernel>));
RIVULET_KERNEL("LSTMBlockCell", Device::kCpu, double, (PrepareCell<double, LstmCellKernel>));
RIVULET_KERNEL("GRUBlockCell", Device::kCpu, float, (PrepareCell<float, GruCellKernel>));
RIVULET_KERNEL("GRUBlockCell", Device::kCpu, double, (PrepareCell<double, GruCellKernel>));

}  // namespace
}  // namespace rivulet
