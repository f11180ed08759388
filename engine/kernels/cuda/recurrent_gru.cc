// GRU over sequences and its backward pass: a product and a step per position of the walk; if the reset gate precedes
// the candidate's product, two of each.
#include "engine/kernels/cuda/recurrent_gru.h"

#include "engine/kernels/cuda/product_launch.h"
#include "engine/kernels/cuda/recurrent_gru_reset_first.h"
#include "engine/kernels/cuda/sequences.h"

namespace rivulet::gpu {
namespace {

struct Gru {
  Sequences sequences;
  DType dtype;
  int64_t batch, units;
  bool reset_after;
  int64_t gate_units() const { return 3 * units; }
};

StatusOr<Gru> GruOf(const NodeView& node, const Shape& rows, int64_t multiple, size_t lengths) {
  RIVULET_ASSIGN_OR_RETURN(const Sequences sequences, Sequences::Of(node, rows, multiple, lengths));
  return Gru{sequences, node.outputs[0].dtype, sequences.walk.batch, sequences.walk.units,
             node.attr<bool>("reset_after")};
}

// A product of all states with the gates' parts of the recurrent kernel [units, 3 · units] or with the candidate's;
// turned: of their gradients, which are in the rows of step `step`, with the transposed part.
struct GruPart {
  int64_t first, parts;
};
constexpr GruPart kGatesPart = {0, 2}, kCandidatePart = {2, 1};

template <typename T>
Status PutPart(const GpuContext& c, const Gru& gru, GruPart part, LaneSpan<const void> states, size_t kernel,
               LaneSpan<void> to) {
  ProductArguments p = ProductOfMatrices(gru.batch, part.parts * gru.units, gru.units, false, false);
  p.a = states;
  p.b = SpanOf<const void>(c.inputs[kernel], static_cast<size_t>(part.first * gru.units) * sizeof(T));
  p.b_depth = gru.gate_units();
  p.c = to;
  return PutProduct(c, gru.dtype, p);
}
template <typename T>
Status PutPartBack(const GpuContext& c, const Gru& gru, GruPart part, int64_t step) {
  const int64_t units = gru.units, gates = gru.gate_units(), first = part.first * units;
  ProductArguments p = ProductOfMatrices(gru.batch, units, part.parts * units, false, true);
  p.a = SpanOf<const void>(c.outputs[0],
                           static_cast<size_t>(gru.sequences.walk.Row(step, 0) * gates + first) * sizeof(T));
  p.a_row = gru.sequences.walk.row_stride() * gates;
  p.b = SpanOf<const void>(c.inputs[0], static_cast<size_t>(first) * sizeof(T));
  p.b_column = gates;
  p.c = SpanOf<void>(c.scratch);
  return PutProduct(c, gru.dtype, p);
}

// Scratch: the gates' product, the reset states, the candidate's product.
template <typename T>
Status GruResetFirst(const GpuContext& c, const Gru& gru, bool has_bias, bool has_h) {
  const size_t states = static_cast<size_t>(gru.batch * gru.units) * sizeof(T);
  for (int64_t s = 0; s < gru.sequences.walk.steps; ++s) {
    const LaneSpan<const void> before = s > 0 ? SpanOf<const void>(c.outputs[1]) : Optional(c, 3, has_h);
    const bool any = before.data != nullptr;  // otherwise states are zero, and so are their products
    GruGatesArguments a{};
    if (any) {
      RIVULET_RETURN_IF_ERROR(PutPart<T>(c, gru, kGatesPart, before, 1, SpanOf<void>(c.scratch)));
      a.product = SpanOf<const void>(c.scratch);
    }
    a.projection = gpu::InputOf<void>(c, 0);
    a.bias = Optional(c, 2, has_bias);
    a.h_before = before;
    a.gates = gpu::OutputOf<void>(c, 2);
    a.reset = SpanOf<void>(c.scratch, 2 * states);
    a.walk = gru.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_gates_{}", kTypeText<T>), a));
    GruCandidateArguments b{};
    if (any) {
      RIVULET_RETURN_IF_ERROR(PutPart<T>(c, gru, kCandidatePart, SpanOf<const void>(c.scratch, 2 * states), 1,
                                         SpanOf<void>(c.scratch, 3 * states)));
      b.product = SpanOf<const void>(c.scratch, 3 * states);
    }
    b.projection = a.projection;
    b.bias = a.bias;
    b.h_before = before;
    b.gates = a.gates;
    b.output = gpu::OutputOf<void>(c, 0);
    b.h = gpu::OutputOf<void>(c, 1);
    b.walk = a.walk;
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_candidate_{}", kTypeText<T>), b));
  }
  return absl::OkStatus();
}

// Sets the arguments of a step's gradient that both forms of the layer share.
template <typename Arguments>
Arguments GradArgumentsAt(const GpuContext& c, const Gru& gru, bool has_h, int64_t s) {
  Arguments a{};
  a.h0 = Optional(c, 1, has_h);
  a.output = gpu::InputOf<void>(c, 3);
  a.gates = gpu::InputOf<void>(c, 4);
  a.output_grad = gpu::InputOf<void>(c, 5);
  a.product = SpanOf<const void>(c.scratch);
  a.projection_grad = gpu::OutputOf<void>(c, 0);
  a.previous = gpu::OutputOf<void>(c, 2);
  a.h_grad = gpu::OutputOf<void>(c, 3);
  a.later = gru.sequences.StepAt(s + 1);
  a.walk = gru.sequences.At(c, s);
  return a;
}

template <typename T>
Status GruResetFirstBackward(const GpuContext& c, const Gru& gru, bool has_h) {
  RIVULET_RETURN_IF_ERROR(
      PutCopy(c, c.inputs[6], c.outputs[3], static_cast<size_t>(gru.batch * gru.units) * sizeof(T)));
  for (int64_t s = gru.sequences.walk.steps - 1; s >= -1; --s) {
    const auto a = GradArgumentsAt<GruResetFirstGradArguments>(c, gru, has_h, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_candidate_grad_{}", kTypeText<T>), a));
    if (s < 0) break;
    RIVULET_RETURN_IF_ERROR(PutPartBack<T>(c, gru, kCandidatePart, a.walk.step));
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_reset_grad_{}", kTypeText<T>), a));
    RIVULET_RETURN_IF_ERROR(PutPartBack<T>(c, gru, kGatesPart, a.walk.step));
  }
  return absl::OkStatus();
}

template <typename T>
Status GruForward(const GpuContext& c, const Gru& gru, bool has_bias, bool has_h) {
  for (int64_t s = 0; s < gru.sequences.walk.steps; ++s) {
    GruStepArguments a{};
    a.h_before = s > 0 ? SpanOf<const void>(c.outputs[1]) : Optional(c, 3, has_h);
    if (a.h_before.data != nullptr) {
      ProductArguments p = ProductOfMatrices(gru.batch, gru.gate_units(), gru.units, false, false);
      p.a = a.h_before;
      p.b = gpu::InputOf<void>(c, 1);
      p.c = SpanOf<void>(c.scratch);
      RIVULET_RETURN_IF_ERROR(PutProduct(c, gru.dtype, p));
      a.product = SpanOf<const void>(c.scratch);
    }
    a.bias = Optional(c, 2, has_bias);
    a.projection = gpu::InputOf<void>(c, 0);
    a.output = gpu::OutputOf<void>(c, 0);
    a.h = gpu::OutputOf<void>(c, 1);
    a.gates = gpu::OutputOf<void>(c, 2);
    a.walk = gru.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_step_{}", kTypeText<T>), a));
  }
  return absl::OkStatus();
}

template <typename T>
StatusOr<Prepared> PrepareGru(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Gru gru, GruOf(node, node.inputs[0].shape, 3, 4));
  const int64_t product = gru.batch * gru.gate_units();
  Prepared prepared = Launching(
      [gru, has_bias = IsGiven(node, 2), has_h = IsGiven(node, 3)](const GpuContext& c) {
        return gru.reset_after ? GruForward<T>(c, gru, has_bias, has_h) : GruResetFirst<T>(c, gru, has_bias, has_h);
      },
      2.0 * static_cast<double>(product * gru.units * gru.sequences.walk.steps));
  prepared.scratch_bytes = static_cast<size_t>(gru.reset_after ? product : 4 * gru.batch * gru.units) * sizeof(T);
  return prepared;
}

template <typename T>
Status GruBackward(const GpuContext& c, const Gru& gru, bool has_h) {
  const int64_t units = gru.units, gates = gru.gate_units();
  RIVULET_RETURN_IF_ERROR(PutCopy(c, c.inputs[6], c.outputs[3], static_cast<size_t>(gru.batch * units) * sizeof(T)));
  for (int64_t s = gru.sequences.walk.steps - 1; s >= -1; --s) {
    auto a = GradArgumentsAt<GruGradArguments>(c, gru, has_h, s);
    a.recurrent_grad = gpu::OutputOf<void>(c, 1);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("gru_step_grad_{}", kTypeText<T>), a));
    if (s < 0) break;
    ProductArguments p = ProductOfMatrices(gru.batch, units, gates, false, true);
    const auto first = static_cast<size_t>(gru.sequences.walk.Row(a.walk.step, 0) * gates) * sizeof(T);
    p.a = SpanOf<const void>(c.outputs[1], first);
    p.a_row = gru.sequences.walk.row_stride() * gates;
    p.b = gpu::InputOf<void>(c, 0);
    p.c = SpanOf<void>(c.scratch);
    RIVULET_RETURN_IF_ERROR(PutProduct(c, gru.dtype, p));
  }
  return absl::OkStatus();
}

template <typename T>
StatusOr<Prepared> PrepareGruBackward(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Gru gru, GruOf(node, node.inputs[3].shape, 1, 2));
  const int64_t states = gru.batch * gru.units;
  Prepared prepared = Launching(
      [gru, has_h = IsGiven(node, 1)](const GpuContext& c) {
        return gru.reset_after ? GruBackward<T>(c, gru, has_h) : GruResetFirstBackward<T>(c, gru, has_h);
      },
      2.0 * static_cast<double>(states * gru.gate_units() * gru.sequences.walk.steps));
  prepared.scratch_bytes = static_cast<size_t>(states) * sizeof(T);
  return prepared;
}

RIVULET_KERNEL("GRU", Device::kCuda, float, PrepareGru<float>);
RIVULET_KERNEL("GRU", Device::kCuda, double, PrepareGru<double>);
RIVULET_KERNEL("GRUGrad", Device::kCuda, float, PrepareGruBackward<float>);
RIVULET_KERNEL("GRUGrad", Device::kCuda, double, PrepareGruBackward<double>);

}  // namespace
}  // namespace rivulet::gpu
