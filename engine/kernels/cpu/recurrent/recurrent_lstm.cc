// LSTM over sequences and its backward pass. Each step is one product of the batch's states with the recurrent kernel;
// gates are activated row by row, in place in the output that the backward pass reads.
#include "engine/kernels/cpu/product/step_product.h"
#include "engine/kernels/cpu/recurrent/choose.h"
#include "engine/kernels/cpu/recurrent/lstm_rows.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {
namespace {

template <typename T>
struct LstmGates {
  explicit LstmGates(const NodeView& node)
      : gate(node.attr<std::string>("recurrent_activation"), node.attr<float>("clip")),
        candidate(node.attr<std::string>("activation"), node.attr<float>("clip")),
        output(node.attr<std::string>("output_activation"), 0) {}
  Gate<T> gate, candidate, output;
};

template <typename T>
class LstmKernel final : public Kernel {
 public:
  LstmKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[0].shape, 4)),
        lengths_(node.inputs[5], 5),
        gates_(node),
        has_h_(IsGiven(node, 2)),
        has_c_(IsGiven(node, 3)),
        has_peephole_(IsGiven(node, 4)),
        one_pass_(ChooseLstmStep(gates_.gate, gates_.candidate, gates_.output, has_peephole_, T{0}) ==
                  StepAlgorithm::kOnePass),
        factor_(portable, /*turned=*/false, 4 * walk_.units, 4 * walk_.units, walk_.units, walk_.batch, walk_.steps),
        kernel_(scratch.Add(factor_.elements())),
        product_(scratch.Add(walk_.batch * 4 * walk_.units)),
        row_(scratch.Add(walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch;
    const T* projection = InputOf<T>(context, 0);
    const auto kernel = factor_.LayOut(InputOf<T>(context, 1), As<T>(context.scratch) + kernel_);
    const T* peephole = OptionalInput<T>(context, 4, has_peephole_);
    T *output = OutputOf<T>(context, 0), *h = OutputOf<T>(context, 1), *c = OutputOf<T>(context, 2);
    T *gates = OutputOf<T>(context, 3), *cells = OutputOf<T>(context, 4);
    T *product = As<T>(context.scratch) + product_, *activated = As<T>(context.scratch) + row_;
    CopyOrZero(OptionalInput<T>(context, 2, has_h_), h, batch * units);
    CopyOrZero(OptionalInput<T>(context, 3, has_c_), c, batch * units);
    for (int64_t s = 0; s < walk_.steps; ++s) {
      const int64_t t = walk_.Step(s);
      if (s == 0 && !has_h_) {
        std::fill_n(product, batch * 4 * units, T{0});
      } else {
        factor_.Times(h, units, kernel, product, batch);
      }
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b);
        T *g = gates + row * 4 * units, *cell = cells + row * units, *out = output + row * units;
        T *c_now = c + b * units, *h_now = h + b * units;
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(g, 4 * units, T{0});
          std::copy_n(c_now, units, cell);
          std::fill_n(out, units, T{0});
          continue;
        }
        if constexpr (std::is_same_v<T, float>) {
          if (one_pass_) {
            LstmForwardRow(projection + row * 4 * units, product + b * 4 * units, g, c_now, h_now, cell, out,
                           static_cast<size_t>(units), walk_.RowsTo(t, walk_.After(t)));
            continue;
          }
        }
        Step(projection + row * 4 * units, product + b * 4 * units, peephole, g, c_now, h_now, activated);
        std::copy_n(c_now, units, cell);
        std::copy_n(h_now, units, out);
      }
    }
    return absl::OkStatus();
  }

 private:
  void Step(const T* projection, const T* product, const T* peephole, T* g, T* c, T* h, T* activated) const {
    const int64_t units = walk_.units;
    for (int64_t i = 0; i < 4 * units; ++i) g[i] = projection[i] + product[i];
    T *in = g, *forget = g + units, *candidate = g + 2 * units, *out = g + 3 * units;
    if (peephole != nullptr) {
      for (int64_t i = 0; i < units; ++i) {
        in[i] += peephole[i] * c[i];
        forget[i] += peephole[units + i] * c[i];
      }
    }
    gates_.gate.Apply(in, 2 * units);
    gates_.candidate.Apply(candidate, units);
    for (int64_t i = 0; i < units; ++i) c[i] = forget[i] * c[i] + in[i] * candidate[i];
    if (peephole != nullptr)
      for (int64_t i = 0; i < units; ++i) out[i] += peephole[2 * units + i] * c[i];
    gates_.gate.Apply(out, units);
    std::copy_n(c, units, activated);
    gates_.output.Apply(activated, units);
    for (int64_t i = 0; i < units; ++i) h[i] = out[i] * activated[i];
  }

  SequenceWalk walk_;
  SequenceLengths lengths_;
  LstmGates<T> gates_;
  bool has_h_, has_c_, has_peephole_, one_pass_;
  StepFactor<T> factor_;
  size_t kernel_, product_, row_;
};

template <typename T>
class LstmGradKernel final : public Kernel {
 public:
  LstmGradKernel(const NodeView& node, bool portable, ScratchPlan<T>& scratch)
      : walk_(SequenceWalk::Of(node, node.inputs[5].shape, 1)),
        lengths_(node.inputs[4], 4),
        gates_(node),
        has_h_(IsGiven(node, 1)),
        has_c_(IsGiven(node, 2)),
        has_peephole_(IsGiven(node, 3)),
        has_cells_grad_(IsGiven(node, 11)),
        cell_clip_(static_cast<T>(node.attr<float>("cell_clip"))),
        one_pass_(ChooseLstmStep(gates_.gate, gates_.candidate, gates_.output, has_peephole_, cell_clip_) ==
                  StepAlgorithm::kOnePass),
        factor_(portable, /*turned=*/true, 4 * walk_.units, walk_.units, 4 * walk_.units, walk_.batch, walk_.steps),
        transposed_(scratch.Add(factor_.elements())),
        product_(scratch.Add(walk_.batch * walk_.units)),
        rows_(scratch.Add(7 * walk_.units)) {}

  Status Run(const KernelContext& context) const override {
    RIVULET_RETURN_IF_ERROR(lengths_.Check(context, walk_));
    const int64_t units = walk_.units, batch = walk_.batch;
    const T* c0 = OptionalInput<T>(context, 2, has_c_);
    T* projection_grad = OutputOf<T>(context, 0);
    T *h_grad = OutputOf<T>(context, 2), *c_grad = OutputOf<T>(context, 3);
    T *product = As<T>(context.scratch) + product_, *rows = As<T>(context.scratch) + rows_;
    const auto transposed = factor_.LayOut(InputOf<T>(context, 0), As<T>(context.scratch) + transposed_);
    std::copy_n(InputOf<T>(context, 9), batch * units, h_grad);
    std::copy_n(InputOf<T>(context, 10), batch * units, c_grad);
    if (has_peephole_) std::fill_n(OutputOf<T>(context, 4), 3 * units, T{0});
    for (int64_t s = walk_.steps - 1; s >= 0; --s) {
      const int64_t t = walk_.Step(s), before = walk_.Before(t);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t row = walk_.Row(t, b);
        if (!lengths_.Covers(context, t, b)) {
          std::fill_n(projection_grad + row * 4 * units, 4 * units, T{0});
          continue;
        }
        const bool inside = IsInside(context, before, b);
        const T* c_before = inside   ? InputOf<T>(context, 7) + walk_.Row(before, b) * units
                            : has_c_ ? c0 + b * units
                                     : nullptr;
        Step(context, t, b, c_before, h_grad + b * units, c_grad + b * units, rows);
      }
      factor_.Times(projection_grad + walk_.Row(t, 0) * 4 * units, walk_.row_stride() * 4 * units, transposed,
                    lengths_.given() ? product : h_grad, batch);
      for (int64_t b = 0; lengths_.given() && b < batch; ++b)
        if (lengths_.Covers(context, t, b)) std::copy_n(product + b * units, units, h_grad + b * units);
    }
    CopyStatesBefore(context);
    return absl::OkStatus();
  }

 private:
  bool IsInside(const KernelContext& context, int64_t t, int64_t b) const {
    return t >= 0 && t < walk_.steps && lengths_.Covers(context, t, b);
  }

  // Output 1: the states at the start of each step. In memory order, unlike the traversal of steps.
  void CopyStatesBefore(const KernelContext& context) const {
    const int64_t units = walk_.units;
    const T *h0 = OptionalInput<T>(context, 1, has_h_), *states = InputOf<T>(context, 5);
    T* to = OutputOf<T>(context, 1);
    for (int64_t row = 0; row < walk_.steps * walk_.batch; ++row, to += units) {
      const int64_t t = walk_.time_major ? row / walk_.batch : row % walk_.steps;
      const int64_t b = walk_.time_major ? row % walk_.batch : row / walk_.steps, before = walk_.Before(t);
      const T* from = nullptr;
      if (lengths_.Covers(context, t, b)) {
        if (IsInside(context, before, b)) {
          from = states + walk_.Row(before, b) * units;
        } else if (has_h_) {
          from = h0 + b * units;
        }
      }
      CopyOrZero(from, to, units);
    }
  }

  // One step of one sequence. c_grad becomes the gradient of the previous cell; h_grad is only read.
  void Step(const KernelContext& context, int64_t t, int64_t b, const T* c_before, const T* h_grad, T* c_grad,
            T* rows) const {
    const int64_t units = walk_.units, row = walk_.Row(t, b), before = walk_.Before(t);
    const T *gates = InputOf<T>(context, 6) + row * 4 * units, *cell = InputOf<T>(context, 7) + row * units;
    const T* output_grad = InputOf<T>(context, 8) + row * units;
    T* grad = OutputOf<T>(context, 0) + row * 4 * units;
    T *in_grad = grad, *forget_grad = grad + units, *candidate_grad = grad + 2 * units, *out_grad = grad + 3 * units;
    T *activated = rows, *through = rows + units, *c_old = rows + 2 * units;
    const T* peephole = OptionalInput<T>(context, 3, has_peephole_);
    if constexpr (std::is_same_v<T, float>) {
      if (one_pass_) {
        const int64_t next = walk_.RowsTo(t, before), then = next == 0 ? 0 : walk_.RowsTo(before, walk_.Before(before));
        LstmBackwardRow({gates, cell, c_before, h_grad, output_grad,
                         has_cells_grad_ ? InputOf<T>(context, 11) + row * units : nullptr, grad, c_grad, next,
                         then == 0 ? nullptr : cell + (next + then) * units},
                        static_cast<size_t>(units));
        return;
      }
    }
    if (gates == grad) {  // gradients are written before the last gate is read
      gates = std::copy_n(gates, 4 * units, rows + 3 * units) - 4 * units;
    }
    const T *in = gates, *forget = gates + units, *candidate = gates + 2 * units, *out = gates + 3 * units;
    CopyOrZero(c_before, c_old, units);
    std::copy_n(cell, units, activated);
    gates_.output.Apply(activated, units);
    for (int64_t i = 0; i < units; ++i) {
      const T dh = h_grad[i] + output_grad[i];
      out_grad[i] = dh * activated[i];
      through[i] = dh * out[i];
    }
    gates_.gate.TimesDerivative(out, out_grad, units);
    gates_.output.TimesDerivative(activated, through, units);
    for (int64_t i = 0; i < units; ++i) c_grad[i] += through[i];
    if (peephole != nullptr)
      for (int64_t i = 0; i < units; ++i) c_grad[i] += out_grad[i] * peephole[2 * units + i];
    if (has_cells_grad_) {
      const T* cells_grad = InputOf<T>(context, 11) + row * units;
      for (int64_t i = 0; i < units; ++i) c_grad[i] += cells_grad[i];
    }
    if (cell_clip_ > 0)
      for (int64_t i = 0; i < units; ++i) c_grad[i] = std::abs(cell[i]) < cell_clip_ ? c_grad[i] : T{0};
    for (int64_t i = 0; i < units; ++i) {
      in_grad[i] = c_grad[i] * candidate[i];
      forget_grad[i] = c_grad[i] * c_old[i];
      candidate_grad[i] = c_grad[i] * in[i];
      c_grad[i] *= forget[i];
    }
    gates_.gate.TimesDerivative(in, in_grad, 2 * units);
    gates_.candidate.TimesDerivative(candidate, candidate_grad, units);
    if (peephole != nullptr) {
      T* peephole_grad = OutputOf<T>(context, 4);
      for (int64_t i = 0; i < units; ++i) {
        c_grad[i] += in_grad[i] * peephole[i] + forget_grad[i] * peephole[units + i];
        peephole_grad[i] += in_grad[i] * c_old[i];
        peephole_grad[units + i] += forget_grad[i] * c_old[i];
        peephole_grad[2 * units + i] += out_grad[i] * cell[i];
      }
    }
  }

  SequenceWalk walk_;
  SequenceLengths lengths_;
  LstmGates<T> gates_;
  bool has_h_, has_c_, has_peephole_, has_cells_grad_;
  T cell_clip_;
  bool one_pass_;
  StepFactor<T> factor_;
  size_t transposed_, product_, rows_;
};

template <typename T, template <typename> class K>
StatusOr<Prepared> PrepareLstm(const NodeView& node, const KernelPolicy& policy) {
  ScratchPlan<T> scratch;
  Prepared prepared;
  prepared.kernel = std::make_unique<K<T>>(node, policy.portable, scratch);
  prepared.scratch_bytes = scratch.bytes();
  prepared.implementation = policy.portable ? "loop" : "hwy";
  constexpr bool kForward = std::is_same_v<K<T>, LstmKernel<T>>;
  // A row of gates replaces its row of the projection, a row of their gradients its row of gates; the states before
  // each step are copied when the output's gradient is no longer needed.
  if (kForward) {
    prepared.in_place = {{0, 3}};
  } else {
    prepared.in_place = {{6, 0}, {8, 1}};
  }
  const Shape& gates = node.outputs[kForward ? 3 : 0].shape;
  prepared.flops = 2.0 * static_cast<double>(gates.elements()) * static_cast<double>(gates.dim(2) / 4);
  return prepared;
}

RIVULET_KERNEL("LSTM", Device::kCpu, float, (PrepareLstm<float, LstmKernel>));
RIVULET_KERNEL("LSTM", Device::kCpu, double, (PrepareLstm<double, LstmKernel>));
RIVULET_KERNEL("LSTMGrad", Device::kCpu, float, (PrepareLstm<float, LstmGradKernel>));
RIVULET_KERNEL("LSTMGrad", Device::kCpu, double, (PrepareLstm<double, LstmGradKernel>));

}  // namespace
}  // namespace rivulet
