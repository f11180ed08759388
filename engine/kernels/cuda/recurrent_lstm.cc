// LSTM over sequences and its backward pass: a product and a step per position of the walk.
#include "engine/kernels/cuda/recurrent_lstm.h"

#include "engine/kernels/cuda/product_launch.h"
#include "engine/kernels/cuda/sequences.h"

namespace rivulet::gpu {
namespace {

struct Lstm {
  Sequences sequences;
  DType dtype;
  int64_t batch, units;
  int64_t gate_units() const { return 4 * units; }
};

StatusOr<Lstm> LstmOf(const NodeView& node, const Shape& rows, int64_t multiple, size_t lengths, size_t peephole) {
  RIVULET_ASSIGN_OR_RETURN(const Sequences sequences, Sequences::Of(node, rows, multiple, lengths));
  RIVULET_RETURN_IF_ERROR(CheckActivation(node, "output_activation", "tanh"));
  if (IsGiven(node, peephole)) return Unimplemented("{} with peepholes on a GPU; leave them out", node.node.type());
  return Lstm{sequences, node.outputs[0].dtype, sequences.walk.batch, sequences.walk.units};
}

template <typename T>
Status LstmForward(const GpuContext& c, const Lstm& lstm, bool has_h, bool has_c) {
  const int64_t units = lstm.units;
  for (int64_t s = 0; s < lstm.sequences.walk.steps; ++s) {
    LstmStepArguments a{};
    a.h_before = s > 0 ? SpanOf<const void>(c.outputs[1]) : Optional(c, 2, has_h);
    a.c_before = s > 0 ? SpanOf<const void>(c.outputs[2]) : Optional(c, 3, has_c);
    if (a.h_before.data != nullptr) {
      ProductArguments p = ProductOfMatrices(lstm.batch, lstm.gate_units(), units, false, false);
      p.a = a.h_before;
      p.b = gpu::InputOf<void>(c, 1);
      p.c = SpanOf<void>(c.scratch);
      RIVULET_RETURN_IF_ERROR(PutProduct(c, lstm.dtype, p));
      a.product = SpanOf<const void>(c.scratch);
    }
    a.projection = gpu::InputOf<void>(c, 0);
    a.output = gpu::OutputOf<void>(c, 0);
    a.h = gpu::OutputOf<void>(c, 1);
    a.c = gpu::OutputOf<void>(c, 2);
    a.gates = gpu::OutputOf<void>(c, 3);
    a.cells = gpu::OutputOf<void>(c, 4);
    a.walk = lstm.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("lstm_step_{}", kTypeText<T>), a));
  }
  return absl::OkStatus();
}

template <typename T>
StatusOr<Prepared> PrepareLstm(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Lstm lstm, LstmOf(node, node.inputs[0].shape, 4, 5, 4));
  const int64_t product = lstm.batch * lstm.gate_units();
  Prepared prepared = Launching([lstm, has_h = IsGiven(node, 2), has_c = IsGiven(node, 3)](
                                    const GpuContext& c) { return LstmForward<T>(c, lstm, has_h, has_c); },
                                2.0 * static_cast<double>(product * lstm.units * lstm.sequences.walk.steps), {{0, 3}});
  prepared.scratch_bytes = static_cast<size_t>(product) * sizeof(T);
  return prepared;
}

struct GradOptions {
  bool has_h, has_c, has_cells_grad;
  double cell_clip;
};

template <typename T>
Status LstmBackward(const GpuContext& c, const Lstm& lstm, const GradOptions& options) {
  const int64_t units = lstm.units, gates = lstm.gate_units();
  const size_t state_bytes = static_cast<size_t>(lstm.batch * units) * sizeof(T);
  RIVULET_RETURN_IF_ERROR(PutCopy(c, c.inputs[9], c.outputs[2], state_bytes));
  RIVULET_RETURN_IF_ERROR(PutCopy(c, c.inputs[10], c.outputs[3], state_bytes));
  for (int64_t s = lstm.sequences.walk.steps - 1; s >= -1; --s) {
    LstmGradArguments a{};
    a.h0 = Optional(c, 1, options.has_h);
    a.c0 = Optional(c, 2, options.has_c);
    a.output = gpu::InputOf<void>(c, 5);
    a.gates = gpu::InputOf<void>(c, 6);
    a.cells = gpu::InputOf<void>(c, 7);
    a.output_grad = gpu::InputOf<void>(c, 8);
    a.cells_grad = Optional(c, 11, options.has_cells_grad);
    a.product = SpanOf<const void>(c.scratch);
    a.projection_grad = gpu::OutputOf<void>(c, 0);
    a.previous = gpu::OutputOf<void>(c, 1);
    a.h_grad = gpu::OutputOf<void>(c, 2);
    a.c_grad = gpu::OutputOf<void>(c, 3);
    a.later = lstm.sequences.StepAt(s + 1);
    a.cell_clip = options.cell_clip;
    a.walk = lstm.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("lstm_step_grad_{}", kTypeText<T>), a));
    if (s < 0) break;
    // The gates' gradients of this step, with rows `row_stride` apart, times the transposed kernel.
    ProductArguments p = ProductOfMatrices(lstm.batch, units, gates, false, true);
    const auto first = static_cast<size_t>(lstm.sequences.walk.Row(a.walk.step, 0) * gates) * sizeof(T);
    p.a = SpanOf<const void>(c.outputs[0], first);
    p.a_row = lstm.sequences.walk.row_stride() * gates;
    p.b = gpu::InputOf<void>(c, 0);
    p.c = SpanOf<void>(c.scratch);
    RIVULET_RETURN_IF_ERROR(PutProduct(c, lstm.dtype, p));
  }
  return absl::OkStatus();
}

template <typename T>
StatusOr<Prepared> PrepareLstmBackward(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Lstm lstm, LstmOf(node, node.inputs[5].shape, 1, 4, 3));
  const GradOptions options = {IsGiven(node, 1), IsGiven(node, 2), IsGiven(node, 11),
                               static_cast<double>(node.attr<float>("cell_clip"))};
  const int64_t states = lstm.batch * lstm.units;
  Prepared prepared = Launching([lstm, options](const GpuContext& c) { return LstmBackward<T>(c, lstm, options); },
                                2.0 * static_cast<double>(states * lstm.gate_units() * lstm.sequences.walk.steps));
  prepared.scratch_bytes = static_cast<size_t>(states) * sizeof(T);
  return prepared;
}

RIVULET_KERNEL("LSTM", Device::kCuda, float, PrepareLstm<float>);
RIVULET_KERNEL("LSTM", Device::kCuda, double, PrepareLstm<double>);
RIVULET_KERNEL("LSTMGrad", Device::kCuda, float, PrepareLstmBackward<float>);
RIVULET_KERNEL("LSTMGrad", Device::kCuda, double, PrepareLstmBackward<double>);

}  // namespace
}  // namespace rivulet::gpu
