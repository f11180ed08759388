// TensorFlow's fused cells: one step of an LSTM or a GRU.
#include "engine/kernels/cpu/recurrent.h"
#include "engine/kernels/cpu/step_product.h"

namespace rivulet {
namespace {

// out = [x, h] · w + b, of `columns` columns.
template <typename T>
struct JointProduct {
  int64_t batch, inputs, units, columns;
  bool portable;
  void operator()(const T* x, const T* h, const T* w, const T* b, T* part, T* out) const {
    StepProduct<T>(portable, x, inputs, 1, w, out, batch, columns, inputs);
    StepProduct<T>(portable, h, units, 1, w + inputs * columns, part, batch, columns, units);
    for (int64_t row = 0; row < batch; ++row)
      for (int64_t i = 0; i < columns; ++i) out[row * columns + i] += part[row * columns + i] + b[i];
  }
};

template <typename T>
class LstmCellKernel final : public Kernel {
 public:
  LstmCellKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : batch_(node.inputs[0].shape.dim(0)),
        units_(node.outputs[0].shape.dim(1)),
        product_{batch_, node.inputs[0].shape.dim(1), units_, 4 * units_, portable},
        forget_bias_(static_cast<T>(node.attr<float>("forget_bias"))),
        clip_(static_cast<T>(node.attr<float>("cell_clip"))),
        peephole_(node.attr<bool>("use_peephole")),
        gates_(scratch.Add(batch_ * 4 * units_)),
        part_(scratch.Add(batch_ * 4 * units_)) {}

  Status Run(const KernelContext& context) const override {
    T *gates = As<T>(context.scratch) + gates_, *part = As<T>(context.scratch) + part_;
    product_(InputOf<T>(context, 0), InputOf<T>(context, 2), InputOf<T>(context, 3), InputOf<T>(context, 7), part,
             gates);
    const T *wci = InputOf<T>(context, 4), *wcf = InputOf<T>(context, 5), *wco = InputOf<T>(context, 6);
    const int64_t units = units_;
    for (int64_t row = 0; row < batch_; ++row, gates += 4 * units) {
      const T* old = InputOf<T>(context, 1) + row * units;
      const auto out = [&](size_t port) { return OutputOf<T>(context, port) + row * units; };
      T *in = out(0), *cs = out(1), *forget = out(2), *o = out(3), *ci = out(4), *co = out(5), *h = out(6);
      for (int64_t i = 0; i < units; ++i) {
        in[i] = gates[i] + (peephole_ ? old[i] * wci[i] : T{0});
        ci[i] = gates[units + i];
        forget[i] = gates[2 * units + i] + forget_bias_ + (peephole_ ? old[i] * wcf[i] : T{0});
      }
      sigmoid_.Apply(in, units);
      tanh_.Apply(ci, units);
      sigmoid_.Apply(forget, units);
      for (int64_t i = 0; i < units; ++i) {
        T cell = ci[i] * in[i] + old[i] * forget[i];
        if (clip_ > 0) cell = cell > clip_ ? clip_ : cell < -clip_ ? -clip_ : cell;
        cs[i] = cell;
        o[i] = gates[3 * units + i] + (peephole_ ? cell * wco[i] : T{0});
      }
      sigmoid_.Apply(o, units);
      std::copy_n(cs, units, co);
      tanh_.Apply(co, units);
      for (int64_t i = 0; i < units; ++i) h[i] = co[i] * o[i];
    }
    return absl::OkStatus();
  }

 private:
  int64_t batch_, units_;
  JointProduct<T> product_;
  T forget_bias_, clip_;
  bool peephole_;
  size_t gates_, part_;
  Gate<T> sigmoid_{"sigmoid", 0}, tanh_{"tanh", 0};
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
