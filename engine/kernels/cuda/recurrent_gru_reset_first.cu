// The two halves of a step of a GRU with the reset gate before the candidate's product, with a thread per state of each
// sequence.
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/recurrent_gru_reset_first.h"
#include "engine/kernels/cuda/sequence_place.h"

namespace rivulet::gpu {
namespace {

using functions::SigmoidOf;
using functions::TanhOf;

template <typename T>
__device__ void Gates(const GruGatesArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step;
  const T* projection = static_cast<const T*>(a.projection.of(lane));
  T *gates = static_cast<T*>(a.gates.of(lane)), *reset = static_cast<T*>(a.reset.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int64_t gate = p.InRows(t, 4), state = p.InState(), in = p.InRows(t, 3);
    if (!p.Covers(t)) {
      for (int k = 0; k < 4; ++k) gates[gate + k * units] = T(0);
      reset[state] = T(0);
      continue;
    }
    T of_gate[2];
    for (int k = 0; k < 2; ++k)
      of_gate[k] = SigmoidOf(projection[in + k * units] + (OrZero<T>(a.product, lane, p.InProduct(2) + k * units) +
                                                           OrZero<T>(a.bias, lane, k * units + p.unit)));
    gates[gate] = of_gate[0];
    gates[gate + units] = of_gate[1];
    gates[gate + 3 * units] = reset[state] = of_gate[1] * OrZero<T>(a.h_before, lane, state);
  }
}

template <typename T>
__device__ void Candidate(const GruCandidateArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step;
  const T* projection = static_cast<const T*>(a.projection.of(lane));
  T *gates = static_cast<T*>(a.gates.of(lane)), *output = static_cast<T*>(a.output.of(lane));
  T* h = static_cast<T*>(a.h.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t), state = p.InState();
    const T before = OrZero<T>(a.h_before, lane, state);
    if (!p.Covers(t)) {
      h[state] = before;
      output[row] = T(0);
      continue;
    }
    const T candidate = TanhOf(projection[p.InRows(t, 3) + 2 * units] + (OrZero<T>(a.product, lane, p.InProduct(1)) +
                                                                         OrZero<T>(a.bias, lane, 2 * units + p.unit)));
    const T z = gates[gate];
    gates[gate + 2 * units] = candidate;
    output[row] = h[state] = z * before + (T(1) - z) * candidate;
  }
}

template <typename T>
__device__ void CandidateGrad(const GruResetFirstGradArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step, before = a.walk.before;
  const T *output = static_cast<const T*>(a.output.of(lane)), *gates = static_cast<const T*>(a.gates.of(lane));
  const T* output_grad = static_cast<const T*>(a.output_grad.of(lane));
  T *grad = static_cast<T*>(a.projection_grad.of(lane)), *previous = static_cast<T*>(a.previous.of(lane));
  T* h_grad = static_cast<T*>(a.h_grad.of(lane));
  const int64_t units = a.walk.units.divisor;
  const T one = T(1);
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int64_t state = p.InState();
    if (p.Covers(a.later)) h_grad[state] += OrZero<T>(a.product, lane, state);
    if (t < 0) continue;  // before the first step: only the incoming gradient remains
    const int64_t gate = p.InRows(t, 4), row = p.InRows(t), in = p.InRows(t, 3);
    if (!p.Covers(t)) {
      for (int k = 0; k < 3; ++k) grad[in + k * units] = T(0);
      previous[row] = T(0);
      continue;
    }
    const T h = p.Covers(before) ? output[p.InRows(before)] : OrZero<T>(a.h0, lane, state);
    const T z = gates[gate], candidate = gates[gate + 2 * units];
    const T dh = h_grad[state] + output_grad[row];
    previous[row] = h;
    grad[in] = dh * (h - candidate) * (z * (one - z));
    grad[in + 2 * units] = dh * (one - z) * (one - candidate * candidate);
    h_grad[state] = dh * z;
  }
}

template <typename T>
__device__ void ResetGrad(const GruResetFirstGradArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step;
  const T* gates = static_cast<const T*>(a.gates.of(lane));
  const T* previous = static_cast<const T*>(a.previous.of(lane));
  T *grad = static_cast<T*>(a.projection_grad.of(lane)), *h_grad = static_cast<T*>(a.h_grad.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    if (!p.Covers(t)) continue;
    const int64_t state = p.InState();
    const T through = OrZero<T>(a.product, lane, state), r = gates[p.InRows(t, 4) + units];
    grad[p.InRows(t, 3) + units] = through * previous[p.InRows(t)] * (r * (T(1) - r));
    h_grad[state] += through * r;
  }
}

#define RIVULET_GPU_GRU_HALF(name, Arguments, Half, T)         \
  __global__ void Gru##Half##_##T(Arguments a) { Half<T>(a); } \
  RIVULET_GPU_KERNEL(name "_" #T, Arguments, Gru##Half##_##T, GridOverStates(a.walk, a.lanes));
#define RIVULET_GPU_GRU_KERNELS(T)                                                         \
  RIVULET_GPU_GRU_HALF("gru_gates", GruGatesArguments, Gates, T)                           \
  RIVULET_GPU_GRU_HALF("gru_candidate", GruCandidateArguments, Candidate, T)               \
  RIVULET_GPU_GRU_HALF("gru_candidate_grad", GruResetFirstGradArguments, CandidateGrad, T) \
  RIVULET_GPU_GRU_HALF("gru_reset_grad", GruResetFirstGradArguments, ResetGrad, T)
RIVULET_GPU_GRU_KERNELS(float)
RIVULET_GPU_GRU_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
