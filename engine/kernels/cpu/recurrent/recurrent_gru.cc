// GRU over sequences and its backward pass. With reset_after each step is one product; otherwise two, because the
// candidate depends on the reset state.
#include "engine/kernels/cpu/product/step_product.h"
#include "engine/kernels/cpu/recurrent/choose.h"
#include "engine/kernels/cpu/recurrent/gru_rows.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {
namespace {

// A row of `gates`: z, r, candidate, and the factor for the candidate's derivative by r: h · R_h + b_h (reset_after) or
// r · h.
template <typename T>
class GruKernel final : public Kernel {
 public:
  GruKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[0].shape, 3)),
        lengths_(node.inputs[4], 4),
        gate_(node.attr<std::string>("recurrent_activation"), node.attr<float>("clip")),
        candidate_(node.attr<std::string>("activation"), node.attr<float>("clip")),
        reset_after_(node.attr<bool>("reset_after")),
        one_pass_(ChooseGruStep(gate_, candidate_, reset_after_) == StepAlgorithm::kOnePass),
        has_bias_(IsGiven(node, 2)),
        has_h_(IsGiven(node, 3)),
        width_((reset_after_ ? 3 : 2) * walk_.units),
        gate_factor_(portable, /*turned=*/false, 3 * walk_.units, width_, walk_.units, walk_.batch, walk_.steps),
        candidate_factor_(portable, /*turned=*/false, 3 * walk_.units, walk_.units, walk_.units, walk_.batch,
                          walk_.steps),
        gate_kernel_(scratch.Add(gate_factor_.elements())),
        candidate_kernel_(scratch.Add(reset_after_ ? 0 : candidate_factor_.elements())),
        product_(scratch.Add(walk_.batch * 3 * walk_.units)),
        reset_(scratch.Add(reset_after_ ? 0 : walk_.batch * walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch;
    const T *projection = InputOf<T>(context, 0), *kernel = InputOf<T>(context, 1);
    T *output = OutputOf<T>(context, 0), *h = OutputOf<T>(context, 1), *gates = OutputOf<T>(context, 2);
    T *product = As<T>(context.scratch) + product_, *reset = As<T>(context.scratch) + reset_;
    const auto gate_kernel = gate_factor_.LayOut(kernel, As<T>(context.scratch) + gate_kernel_);
    const auto candidate_kernel =
        reset_after_ ? typename StepFactor<T>::LaidOut{}
                     : candidate_factor_.LayOut(kernel + 2 * units, As<T>(context.scratch) + candidate_kernel_);
    CopyOrZero(OptionalInput<T>(context, 3, has_h_), h, batch * units);
    for (int64_t s = 0; s < walk_.steps; ++s) {
      const int64_t t = walk_.Step(s);
      gate_factor_.Times(h, units, gate_kernel, product, batch);
      if constexpr (std::is_same_v<T, float>) {
        if (one_pass_) {
          Rows(context, t, product, h);
          continue;
        }
      }
      AddBias(context, product, batch, width_, 0);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b);
        const T *p = projection + row * 3 * units, *q = product + b * width_;
        T* g = gates + row * 4 * units;
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(g, 4 * units, T{0});
          if (!reset_after_) std::fill_n(reset + b * units, units, T{0});
          continue;
        }
        for (int64_t i = 0; i < 2 * units; ++i) g[i] = p[i] + q[i];
        gate_.Apply(g, 2 * units);
        if (reset_after_) {
          std::copy_n(q + 2 * units, units, g + 3 * units);
          for (int64_t i = 0; i < units; ++i) g[2 * units + i] = p[2 * units + i] + g[units + i] * q[2 * units + i];
        } else {
          for (int64_t i = 0; i < units; ++i) g[3 * units + i] = g[units + i] * h[b * units + i];
          std::copy_n(g + 3 * units, units, reset + b * units);
        }
      }
      if (!reset_after_) {
        candidate_factor_.Times(reset, units, candidate_kernel, product, batch);
        AddBias(context, product, batch, units, 2 * units);
      }
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b);
        T *g = gates + row * 4 * units, *out = output + row * units, *h_now = h + b * units;
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(out, units, T{0});
          continue;
        }
        T* candidate = g + 2 * units;
        if (!reset_after_) {
          const T *p = projection + row * 3 * units + 2 * units, *q = product + b * units;
          for (int64_t i = 0; i < units; ++i) candidate[i] = p[i] + q[i];
        }
        candidate_.Apply(candidate, units);
        for (int64_t i = 0; i < units; ++i) h_now[i] = g[i] * h_now[i] + (1 - g[i]) * candidate[i];
        std::copy_n(h_now, units, out);
      }
    }
    return absl::OkStatus();
  }

 private:
  void AddBias(const KernelContext& context, T* product, int64_t rows, int64_t width, int64_t begin) const {
    if (!has_bias_) return;
    const T* bias = InputOf<T>(context, 2) + begin;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < width; ++i) product[row * width + i] += bias[i];
  }

  // The rest of step t after its product, if gru_rows.h supports it.
  void Rows(const KernelContext& context, int64_t t, const float* product, float* h) const {
    const int64_t units = walk_.units;
    for (int64_t b = 0; b < walk_.batch; ++b) {
      const int64_t row = walk_.Row(t, b);
      float* gates = OutputOf<float>(context, 2) + row * 4 * units;
      float* output = OutputOf<float>(context, 0) + row * units;
      if (lengths_.Covers(context, t, b)) {
        GruForwardRow(InputOf<float>(context, 0) + row * 3 * units, product + b * width_,
                      OptionalInput<float>(context, 2, has_bias_), gates, h + b * units, output,
                      static_cast<size_t>(units));
      } else {
        std::fill_n(gates, 4 * units, 0.0f);
        std::fill_n(output, units, 0.0f);
      }
    }
  }

  SequenceWalk walk_;
  SequenceLengths lengths_;
  Gate<T> gate_, candidate_;
  bool reset_after_, one_pass_, has_bias_, has_h_;
  int64_t width_;  // of a row of the first product
  StepFactor<T> gate_factor_, candidate_factor_;
  size_t gate_kernel_, candidate_kernel_, product_, reset_;
};

template <typename T>
class GruGradKernel final : public Kernel {
 public:
  GruGradKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[3].shape, 1)),
        lengths_(node.inputs[2], 2),
        gate_(node.attr<std::string>("recurrent_activation"), node.attr<float>("clip")),
        candidate_(node.attr<std::string>("activation"), node.attr<float>("clip")),
        reset_after_(node.attr<bool>("reset_after")),
        one_pass_(ChooseGruStep(gate_, candidate_, reset_after_) == StepAlgorithm::kOnePass),
        has_h_(IsGiven(node, 1)),
        gate_factor_(portable, /*turned=*/true, 3 * walk_.units, walk_.units, (reset_after_ ? 3 : 2) * walk_.units,
                     walk_.batch, walk_.steps),
        candidate_factor_(portable, /*turned=*/true, 3 * walk_.units, walk_.units, walk_.units, walk_.batch,
                          walk_.steps),
        gate_kernel_(scratch.Add(gate_factor_.elements())),
        candidate_kernel_(scratch.Add(reset_after_ ? 0 : candidate_factor_.elements())),
        product_(scratch.Add(walk_.batch * walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch, stride = walk_.row_stride() * 3 * units;
    const T *h0 = OptionalInput<T>(context, 1, has_h_), *output = InputOf<T>(context, 3);
    T *grads = OutputOf<T>(context, 0), *recurrent = reset_after_ ? OutputOf<T>(context, 1) : grads;
    T *previous = OutputOf<T>(context, 2), *h_grad = OutputOf<T>(context, 3);
    T* product = As<T>(context.scratch) + product_;
    const T* kernel = InputOf<T>(context, 0);
    const auto gate_kernel = gate_factor_.LayOut(kernel, As<T>(context.scratch) + gate_kernel_);
    const auto candidate_kernel =
        reset_after_ ? typename StepFactor<T>::LaidOut{}
                     : candidate_factor_.LayOut(kernel + 2 * units, As<T>(context.scratch) + candidate_kernel_);
    std::copy_n(InputOf<T>(context, 6), batch * units, h_grad);
    for (int64_t s = walk_.steps - 1; s >= 0; --s) {
      const int64_t t = walk_.Step(s), first = walk_.Row(t, 0) * 3 * units;
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b);
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(grads + row * 3 * units, 3 * units, T{0});
          if (reset_after_) std::fill_n(recurrent + row * 3 * units, 3 * units, T{0});
          std::fill_n(previous + row * units, units, T{0});
          continue;
        }
        CopyOrZero(StateBefore(context, walk_, lengths_, t, b, output, h0), previous + row * units, units);
        Candidate(context, row, h_grad + b * units);
      }
      if (!reset_after_) {
        candidate_factor_.Times(grads + first + 2 * units, stride, candidate_kernel, product, batch);
        for (int64_t b = 0; b < batch; ++b)
          if (lengths_.Covers(context, t, b)) Reset(context, walk_.Row(t, b), product + b * units, h_grad + b * units);
      }
      gate_factor_.Times(recurrent + first, stride, gate_kernel, product, batch);
      for (int64_t b = 0; b < batch; ++b)
        if (lengths_.Covers(context, t, b))
          for (int64_t i = 0; i < units; ++i) h_grad[b * units + i] += product[b * units + i];
    }
    return absl::OkStatus();
  }

 private:
  // Computes the gradients of z and the candidate, and with reset_after that of r; h_grad becomes its part through z.
  void Candidate(const KernelContext& context, int64_t row, T* h_grad) const {
    const int64_t units = walk_.units;
    const T* gates = InputOf<T>(context, 4) + row * 4 * units;
    const T *z = gates, *r = gates + units, *n = gates + 2 * units, *inner = gates + 3 * units;
    const T *output_grad = InputOf<T>(context, 5) + row * units, *h = OutputOf<T>(context, 2) + row * units;
    T* grad = OutputOf<T>(context, 0) + row * 3 * units;
    T *z_grad = grad, *r_grad = grad + units, *n_grad = grad + 2 * units;
    if constexpr (std::is_same_v<T, float>) {
      if (one_pass_) {
        GruBackwardRow({gates, h, output_grad, grad, OutputOf<T>(context, 1) + row * 3 * units, h_grad},
                       static_cast<size_t>(units));
        return;
      }
    }
    for (int64_t i = 0; i < units; ++i) {
      const T dh = h_grad[i] + output_grad[i];
      z_grad[i] = dh * (h[i] - n[i]);
      n_grad[i] = dh * (1 - z[i]);
      h_grad[i] = dh * z[i];
    }
    candidate_.TimesDerivative(n, n_grad, units);
    gate_.TimesDerivative(z, z_grad, units);
    if (!reset_after_) return;
    T* recurrent = OutputOf<T>(context, 1) + row * 3 * units;
    for (int64_t i = 0; i < units; ++i) {
      r_grad[i] = n_grad[i] * inner[i];
      recurrent[2 * units + i] = n_grad[i] * r[i];
    }
    gate_.TimesDerivative(r, r_grad, units);
    std::copy_n(grad, 2 * units, recurrent);
  }

  // Without reset_after: `through` is the gradient of r · h.
  void Reset(const KernelContext& context, int64_t row, const T* through, T* h_grad) const {
    const int64_t units = walk_.units;
    const T *r = InputOf<T>(context, 4) + row * 4 * units + units, *h = OutputOf<T>(context, 2) + row * units;
    T* r_grad = OutputOf<T>(context, 0) + row * 3 * units + units;
    for (int64_t i = 0; i < units; ++i) {
      r_grad[i] = through[i] * h[i];
      h_grad[i] += through[i] * r[i];
    }
    gate_.TimesDerivative(r, r_grad, units);
  }

  SequenceWalk walk_;
  SequenceLengths lengths_;
  Gate<T> gate_, candidate_;
  bool reset_after_, one_pass_, has_h_;
  StepFactor<T> gate_factor_, candidate_factor_;
  size_t gate_kernel_, candidate_kernel_, product_;
};

template <typename T, template <typename> class K>
StatusOr<Prepared> PrepareGru(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<K<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  constexpr bool kForward = std::is_same_v<K<T>, GruKernel<T>>;
  const Shape& rows = node.outputs[kForward ? 0 : 2].shape;
  prepared.flops = 6.0 * static_cast<double>(rows.elements()) * static_cast<double>(rows.dim(2));
  return prepared;
}

RIVULET_KERNEL("GRU", Device::kCpu, float, (PrepareGru<float, GruKernel>));
RIVULET_KERNEL("GRU", Device::kCpu, double, (PrepareGru<double, GruKernel>));
RIVULET_KERNEL("GRUGrad", Device::kCpu, float, (PrepareGru<float, GruGradKernel>));
RIVULET_KERNEL("GRUGrad", Device::kCpu, double, (PrepareGru<double, GruGradKernel>));

}  // namespace
}  // namespace rivulet
