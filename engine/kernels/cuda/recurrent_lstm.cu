// A step of an LSTM with the usual activations, with a thread per state of each sequence: all work between two products
// is elementwise.
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/recurrent_lstm.h"
#include "engine/kernels/cuda/sequence_place.h"

namespace rivulet::gpu {
namespace {

using functions::SigmoidOf;
using functions::TanhOf;

template <typename T>
__device__ void Step(const LstmStepArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* projection = static_cast<const T*>(a.projection.of(lane));
  T *gates = static_cast<T*>(a.gates.of(lane)), *cells = static_cast<T*>(a.cells.of(lane));
  T *output = static_cast<T*>(a.output.of(lane)), *h = static_cast<T*>(a.h.of(lane)),
    *c = static_cast<T*>(a.c.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int t = a.walk.step;
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t), state = p.InState();
    const T c_before = OrZero<T>(a.c_before, lane, state);
    if (!p.Covers(t)) {
      for (int k = 0; k < 4; ++k) gates[gate + k * units] = T(0);
      cells[row] = c[state] = c_before;
      h[state] = OrZero<T>(a.h_before, lane, state);
      output[row] = T(0);
      continue;
    }
    T sums[4];
    for (int k = 0; k < 4; ++k)
      sums[k] = projection[gate + k * units] + OrZero<T>(a.product, lane, p.InProduct(4) + k * units);
    const T in = SigmoidOf(sums[0]), forget = SigmoidOf(sums[1]), candidate = TanhOf(sums[2]), out = SigmoidOf(sums[3]);
    const T cell = forget * c_before + in * candidate;
    gates[gate] = in;
    gates[gate + units] = forget;
    gates[gate + 2 * units] = candidate;
    gates[gate + 3 * units] = out;
    cells[row] = c[state] = cell;
    output[row] = h[state] = out * TanhOf(cell);
  }
}

template <typename T>
__device__ void StepGrad(const LstmGradArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *output = static_cast<const T*>(a.output.of(lane)), *gates = static_cast<const T*>(a.gates.of(lane));
  const T *cells = static_cast<const T*>(a.cells.of(lane)),
          *output_grad = static_cast<const T*>(a.output_grad.of(lane));
  T *grad = static_cast<T*>(a.projection_grad.of(lane)), *previous = static_cast<T*>(a.previous.of(lane));
  T *h_grad = static_cast<T*>(a.h_grad.of(lane)), *c_grad = static_cast<T*>(a.c_grad.of(lane));
  const int64_t units = a.walk.units.divisor;
  const T one = T(1);
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int t = a.walk.step, before = a.walk.before;
    const int64_t state = p.InState();
    if (p.Covers(a.later)) h_grad[state] = OrZero<T>(a.product, lane, state);
    if (t < 0) continue;  // before the first step: only the incoming gradient remains
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t);
    if (!p.Covers(t)) {
      for (int k = 0; k < 4; ++k) grad[gate + k * units] = T(0);
      previous[row] = T(0);
      continue;
    }
    const bool inside = p.Covers(before);
    previous[row] = inside ? output[p.InRows(before)] : OrZero<T>(a.h0, lane, state);
    const T c_before = inside ? cells[p.InRows(before)] : OrZero<T>(a.c0, lane, state);
    const T in = gates[gate], forget = gates[gate + units], candidate = gates[gate + 2 * units];
    const T out = gates[gate + 3 * units], activated = TanhOf(cells[row]);
    const T dh = h_grad[state] + output_grad[row];
    T carried = c_grad[state] + dh * out * (one - activated * activated) + OrZero<T>(a.cells_grad, lane, row);
    if (a.cell_clip > 0 && !(functions::AbsOf(cells[row]) < static_cast<T>(a.cell_clip))) carried = T(0);
    grad[gate] = carried * candidate * (in * (one - in));
    grad[gate + units] = carried * c_before * (forget * (one - forget));
    grad[gate + 2 * units] = carried * in * (one - candidate * candidate);
    grad[gate + 3 * units] = dh * activated * (out * (one - out));
    c_grad[state] = carried * forget;
  }
}

#define RIVULET_GPU_LSTM_KERNELS(T)                                                                      \
  __global__ void LstmStep_##T(LstmStepArguments a) { Step<T>(a); }                                      \
  RIVULET_GPU_KERNEL("lstm_step_" #T, LstmStepArguments, LstmStep_##T, GridOverStates(a.walk, a.lanes)); \
  __global__ void LstmStepGrad_##T(LstmGradArguments a) { StepGrad<T>(a); }                              \
  RIVULET_GPU_KERNEL("lstm_step_grad_" #T, LstmGradArguments, LstmStepGrad_##T, GridOverStates(a.walk, a.lanes));
RIVULET_GPU_LSTM_KERNELS(float)
RIVULET_GPU_LSTM_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
