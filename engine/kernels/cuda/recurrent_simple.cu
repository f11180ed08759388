// A step of the simple recurrent layer, with a thread per state of each sequence.
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/recurrent_simple.h"
#include "engine/kernels/cuda/sequence_place.h"

namespace rivulet::gpu {
namespace {

using functions::SigmoidOf;
using functions::TanhOf;

template <typename T>
__device__ T Activated(int32_t activation, T x) {
  if (activation == kSimpleTanh) return TanhOf(x);
  if (activation == kSimpleSigmoid) return SigmoidOf(x);
  return x > T(0) || x != x ? x : T(0);
}
// The derivative, computed from the output.
template <typename T>
__device__ T Derivative(int32_t activation, T y) {
  if (activation == kSimpleTanh) return T(1) - y * y;
  if (activation == kSimpleSigmoid) return y * (T(1) - y);
  return y > T(0) ? T(1) : T(0);
}

template <typename T>
__device__ void Step(const SimpleStepArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step;
  const T* projection = static_cast<const T*>(a.projection.of(lane));
  T *output = static_cast<T*>(a.output.of(lane)), *h = static_cast<T*>(a.h.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int64_t row = p.InRows(t), state = p.InState();
    const bool covered = p.Covers(t);
    const T next = covered ? Activated(a.activation, OrZero<T>(a.product, lane, p.InProduct(1)) + projection[row])
                           : OrZero<T>(a.h_before, lane, state);
    h[state] = next;
    output[row] = covered ? next : T(0);
  }
}

template <typename T>
__device__ void StepGrad(const SimpleGradArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z), t = a.walk.step;
  const T* output = static_cast<const T*>(a.output.of(lane));
  const T* output_grad = static_cast<const T*>(a.output_grad.of(lane));
  T *grad = static_cast<T*>(a.projection_grad.of(lane)), *previous = static_cast<T*>(a.previous.of(lane));
  T* h_grad = static_cast<T*>(a.h_grad.of(lane));
  const int64_t units = a.walk.units.divisor;
  for (int64_t i = FirstElement(); i < units * a.walk.batch; i += ElementStride()) {
    const SequencePlace p(a.walk, lane, i);
    const int64_t state = p.InState();
    if (p.Covers(a.later)) h_grad[state] = OrZero<T>(a.product, lane, state);
    if (t < 0) continue;  // before the first step: only the incoming gradient remains
    const int64_t row = p.InRows(t);
    if (!p.Covers(t)) {
      grad[row] = previous[row] = T(0);
      continue;
    }
    previous[row] = p.Covers(a.walk.before) ? output[p.InRows(a.walk.before)] : OrZero<T>(a.h0, lane, state);
    grad[row] = (h_grad[state] + output_grad[row]) * Derivative(a.activation, output[row]);
  }
}

#define RIVULET_GPU_SIMPLE_KERNELS(T)                                                                          \
  __global__ void SimpleStep_##T(SimpleStepArguments a) { Step<T>(a); }                                        \
  RIVULET_GPU_KERNEL("simple_step_" #T, SimpleStepArguments, SimpleStep_##T, GridOverStates(a.walk, a.lanes)); \
  __global__ void SimpleStepGrad_##T(SimpleGradArguments a) { StepGrad<T>(a); }                                \
  RIVULET_GPU_KERNEL("simple_step_grad_" #T, SimpleGradArguments, SimpleStepGrad_##T, GridOverStates(a.walk, a.lanes));
RIVULET_GPU_SIMPLE_KERNELS(float)
RIVULET_GPU_SIMPLE_KERNELS(double)

}  // namespace
}  // namespace rivulet::gpu
