// A step of a GRU with the usual activations, with a thread per state of each sequence.
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/recurrent_gru.h"
#include "engine/kernels/cuda/sequence_place.h"

namespace rivulet::gpu {
namespace {

using functions::SigmoidOf;
using functions::TanhOf;

template <typename T>
__device__ void Step(const GruStepArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* projection = static_cast<const T*>(a.projection.of(lane));
  T *gates = static_cast<T*>(a.gates.of(lane)), *output = static_cast<T*>(a.output.of(lane));
  T* h = static_cast<T*>(a.h.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int t = a.walk.step;
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t), state = p.InState(), in = p.InRows(t, 3);
    const T before = OrZero<T>(a.h_before, lane, state);
    if (!p.Covers(t)) {
      for (int k = 0; k < 4; ++k) gates[gate + k * units] = T(0);
      h[state] = before;
      output[row] = T(0);
      continue;
    }
    T from_state[3];
    for (int k = 0; k < 3; ++k)
      from_state[k] =
          OrZero<T>(a.product, lane, p.InProduct(3) + k * units) + OrZero<T>(a.bias, lane, k * units + p.unit);
    const T z = SigmoidOf(projection[in] + from_state[0]), r = SigmoidOf(projection[in + units] + from_state[1]);
    const T candidate = TanhOf(projection[in + 2 * units] + r * from_state[2]);
    gates[gate] = z;
    gates[gate + units] = r;
    gates[gate + 2 * units] = candidate;
    gates[gate + 3 * units] = from_state[2];
    output[row] = h[state] = z * before + (T(1) - z) * candidate;
  }
}

template <typename T>
__device__ void StepGrad(const GruGradArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T *output = static_cast<const T*>(a.output.of(lane)), *gates = static_cast<const T*>(a.gates.of(lane));
  const T* output_grad = static_cast<const T*>(a.output_grad.of(lane));
  T *grad = static_cast<T*>(a.projection_grad.of(lane)), *recurrent = static_cast<T*>(a.recurrent_grad.of(lane));
  T *previous = static_cast<T*>(a.previous.of(lane)), *h_grad = static_cast<T*>(a.h_grad.of(lane));
  const int64_t units = a.walk.units.divisor;
  const T one = T(1);
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int t = a.walk.step, before = a.walk.before;
    const int64_t state = p.InState();
    if (p.Covers(a.later)) h_grad[state] += OrZero<T>(a.product, lane, state);
    if (t < 0) continue;  // before the first step: only the incoming gradient remains
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t), in = p.InRows(t, 3);
    if (!p.Covers(t)) {
      for (int k = 0; k < 3; ++k) grad[in + k * units] = recurrent[in + k * units] = T(0);
      previous[row] = T(0);
      continue;
    }
    const T h = p.Covers(before) ? output[p.InRows(before)] : OrZero<T>(a.h0, lane, state);
    const T z = gates[gate], r = gates[gate + units], candidate = gates[gate + 2 * units];
    const T dh = h_grad[state] + output_grad[row];
    const T z_grad = dh * (h - candidate) * (z * (one - z));
    const T candidate_grad = dh * (one - z) * (one - candidate * candidate);
    const T r_grad = candidate_grad * gates[gate + 3 * units] * (r * (one - r));
    previous[row] = h;
    grad[in] = recurrent[in] = z_grad;
    grad[in + units] = recurrent[in + units] = r_grad;
    grad[in + 2 * units] = candidate_grad;
    recurrent[in + 2 * units] = candidate_grad * r;
    h_grad[state] = dh * z;
  }
}

#define RIVULET_GPU_GRU_KERNELS(T)                                                                    \
  __global__ void GruStep_##T(GruStepArguments a) { Step<T>(a); }                                     \
  RIVULET_GPU_KERNEL("gru_step_" #T, GruStepArguments, GruStep_##T, GridOverStates(a.walk, a.lanes)); \
  __global__ void GruStepGrad_##T(GruGradArguments a) { StepGrad<T>(a); }                             \
  RIVULET_GPU_KERNEL("gru_step_grad_" #T, GruGradArguments, GruStepGrad_##T, GridOverStates(a.walk, a.lanes));
RIVULET_GPU_GRU_KERNELS(float)
RIVULET_GPU_GRU_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
