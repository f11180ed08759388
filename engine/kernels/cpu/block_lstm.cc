// TensorFlow's fused LSTMs over sequences.
#include "engine/kernels/cpu/recurrent.h"
#include "engine/kernels/cpu/step_product.h"

namespace rivulet {
namespace {

template <typename T>
class BlockLstmKernel final : public Kernel {
 public:
  BlockLstmKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : steps_(node.inputs[1].shape.dim(0)),
        batch_(node.inputs[1].shape.dim(1)),
        inputs_(node.inputs[1].shape.dim(2)),
        units_(node.outputs[6].shape.dim(2)),
        second_(node.node.type() == "BlockLSTMV2"),
        forget_bias_(second_ ? T{0} : static_cast<T>(node.attr<float>("forget_bias"))),
        clip_(static_cast<T>(node.attr<float>("cell_clip"))),
        peephole_(node.attr<bool>("use_peephole")),
        portable_(portable),
        gates_(scratch.Add(batch_ * 4 * units_)),
        part_(scratch.Add(batch_ * 4 * units_)) {}

  Status Run(const KernelContext& context) const override {
    const int64_t length = *InputOf<int64_t>(context, 0), row = batch_ * units_;
    if (length < 0 || length > steps_) return InvalidArgument("seq_len_max is {}, but x has {} steps", length, steps_);
    for (int64_t t = 0; t < length; ++t) {
      const T* cs_prev = t == 0 ? InputOf<T>(context, 2) : OutputOf<T>(context, 1) + (t - 1) * row;
      const T* h_prev = t == 0 ? InputOf<T>(context, 3) : OutputOf<T>(context, 6) + (t - 1) * row;
      Step(context, t, cs_prev, h_prev);
    }
    for (size_t port = 0; port < 7; ++port)
      std::fill_n(OutputOf<T>(context, port) + length * row, (steps_ - length) * row, T{0});
    return absl::OkStatus();
  }

 private:
  void Step(const KernelContext& context, int64_t t, const T* cs_prev, const T* h_prev) const {
    const int64_t units = units_, width = 4 * units;
    T *gates = As<T>(context.scratch) + gates_, *part = As<T>(context.scratch) + part_;
    const T *w = InputOf<T>(context, 4), *bias = InputOf<T>(context, 8);
    const T *wci = InputOf<T>(context, 5), *wcf = InputOf<T>(context, 6), *wco = InputOf<T>(context, 7);
    StepProduct<T>(portable_, InputOf<T>(context, 1) + t * batch_ * inputs_, inputs_, 1, w, gates, batch_, width,
                   inputs_);
    StepProduct<T>(portable_, h_prev, units, 1, w + inputs_ * width, part, batch_, width, units);
    for (int64_t b = 0; b < batch_; ++b, gates += width, part += width) {
      for (int64_t i = 0; i < width; ++i) gates[i] += part[i] + bias[i];
      const T *candidate = gates + (second_ ? 2 : 1) * units, *forget = gates + (second_ ? 1 : 2) * units;
      const T* old = cs_prev + b * units;
      const auto out = [&](size_t port) { return OutputOf<T>(context, port) + (t * batch_ + b) * units; };
      T *in = out(0), *cs = out(1), *f = out(2), *o = out(3), *ci = out(4), *co = out(5), *h = out(6);
      for (int64_t i = 0; i < units; ++i) {
        in[i] = gates[i] + (peephole_ ? old[i] * wci[i] : T{0});
        ci[i] = candidate[i];
        f[i] = forget[i] + forget_bias_ + (peephole_ ? old[i] * wcf[i] : T{0});
      }
      sigmoid_.Apply(in, units);
      tanh_.Apply(ci, units);
      sigmoid_.Apply(f, units);
      for (int64_t i = 0; i < units; ++i) {
        T cell = ci[i] * in[i] + old[i] * f[i];
        if (clip_ > 0) cell = cell > clip_ ? clip_ : cell < -clip_ ? -clip_ : cell;
        cs[i] = cell;
        o[i] = gates[3 * units + i] + (peephole_ ? cell * wco[i] : T{0});
      }
      sigmoid_.Apply(o, units);
      std::copy_n(cs, units, co);
      tanh_.Apply(co, units);
      for (int64_t i = 0; i < units; ++i) h[i] = co[i] * o[i];
    }
  }

  int64_t steps_, batch_, inputs_, units_;
  bool second_;
  T forget_bias_, clip_;
  bool peephole_, portable_;
  size_t gates_, part_;
  Gate<T> sigmoid_{"sigmoid", 0}, tanh_{"tanh", 0};
};

template <typename T>
StatusOr<Prepared> PrepareBlockLstm(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<BlockLstmKernel<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  return prepared;
}

RIVULET_KERNEL("BlockLSTM", Device::kCpu, float, PrepareBlockLstm<float>);
RIVULET_KERNEL("BlockLSTM", Device::kCpu, double, PrepareBlockLstm<double>);
RIVULET_KERNEL("BlockLSTMV2", Device::kCpu, float, PrepareBlockLstm<float>);
RIVULET_KERNEL("BlockLSTMV2", Device::kCpu, double, PrepareBlockLstm<double>);

}  // namespace
}  // namespace rivulet
