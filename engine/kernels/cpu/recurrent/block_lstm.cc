// TensorFlow's fused LSTMs over sequences.
#include "engine/kernels/cpu/recurrent/lstm_block.h"

namespace rivulet {
namespace {

template <typename T>
class BlockLstmKernel final : public Kernel {
 public:
  BlockLstmKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : steps_(node.inputs[1].shape.dim(0)),
        batch_(node.inputs[1].shape.dim(1)),
        units_(node.outputs[6].shape.dim(2)),
        product_{batch_, node.inputs[1].shape.dim(2), units_, 4 * units_, portable},
        step_(node, units_, ForgetBias(node), node.node.type() == "BlockLSTMV2"),
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
  // BlockLSTMV2 has none: its bias includes it.
  static T ForgetBias(const NodeView& node) {
    return node.node.type() == "BlockLSTMV2" ? T{0} : static_cast<T>(node.attr<float>("forget_bias"));
  }

  void Step(const KernelContext& context, int64_t t, const T* cs_prev, const T* h_prev) const {
    T *gates = As<T>(context.scratch) + gates_, *part = As<T>(context.scratch) + part_;
    const T* x = InputOf<T>(context, 1) + t * batch_ * product_.inputs;
    product_(x, h_prev, InputOf<T>(context, 4), InputOf<T>(context, 8), part, gates);
    for (int64_t b = 0; b < batch_; ++b) {
      const auto out = [&](size_t port) { return OutputOf<T>(context, port) + (t * batch_ + b) * units_; };
      step_(gates + b * 4 * units_, cs_prev + b * units_,
            {InputOf<T>(context, 5), InputOf<T>(context, 6), InputOf<T>(context, 7)},
            {out(0), out(1), out(2), out(3), out(4), out(5), out(6)});
    }
  }

  int64_t steps_, batch_, units_;
  JointProduct<T> product_;
  LstmBlockStep<T> step_;
  size_t gates_, part_;
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
