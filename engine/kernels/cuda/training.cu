// Steps of optimisers. Products are rounded before they are added (Times), so that a step has the CPU's bits: a model
// must not depend on whether a compiler fuses the two.
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/training.h"

namespace rivulet::gpu {
namespace {

using functions::RootOf;

__device__ inline float Times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double Times(double a, double b) { return __dmul_rn(a, b); }

// The scalars of a lane and element `i` of its variables.
template <typename T>
struct Step {
  const OptimizerArguments& a;
  int lane;
  int64_t i;
  __device__ T scalar(int number) const { return *static_cast<const T*>(a.scalars[number].of(lane)); }
  __device__ T& variable(int number) const { return static_cast<T*>(a.variables[number].of(lane))[i]; }
  __device__ T gradient() const { return static_cast<const T*>(a.gradient.of(lane))[i]; }
};

namespace rules {

struct GradientDescent {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    s.variable(0) = s.variable(0) - Times(s.scalar(0), s.gradient());
  }
};

// accum = momentum · accum + grad; variable −= lr · accum, or lr · (grad + momentum · accum) with Nesterov. Scalars are
// the rate and the momentum.
struct Momentum {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    const T g = s.gradient(), moved = Times(s.scalar(1), s.variable(1)) + g;
    s.variable(1) = moved;
    const T direction = s.a.flag != 0 ? g + Times(s.scalar(1), moved) : moved;
    s.variable(0) = s.variable(0) - Times(s.scalar(0), direction);
  }
};

// accum += g²; var −= lr · g / (√accum + epsilon)
template <typename T>
__device__ void ApplyAdagrad(const Step<T>& s, T epsilon) {
  const T g = s.gradient();
  T sum = s.variable(1);
  if (s.a.flag != 0) s.variable(1) = sum = sum + Times(g, g);
  s.variable(0) = s.variable(0) - Times(s.scalar(0), g) / (RootOf(sum) + epsilon);
}
struct Adagrad {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyAdagrad(s, T(0));
  }
};
struct AdagradV2 {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyAdagrad(s, s.scalar(1));
  }
};

// accum = rho · accum + (1 − rho) · g²; update = √(accum_update + epsilon) / √(accum + epsilon) · g;
// accum_update = rho · accum_update + (1 − rho) · update²; var −= lr · update
struct Adadelta {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    const T rate = s.scalar(0), rho = s.scalar(1), epsilon = s.scalar(2), rest = T(1) - rho;
    const T g = s.gradient(), updates = s.variable(2);
    const T sum = Times(rho, s.variable(1)) + Times(rest, Times(g, g));
    s.variable(1) = sum;
    const T step = Times(RootOf(updates + epsilon) / RootOf(sum + epsilon), g);
    s.variable(2) = Times(rho, updates) + Times(rest, Times(step, step));
    s.variable(0) = s.variable(0) - Times(rate, step);
  }
};

// ms += (1 − rho) · (g² − ms); mom = momentum · mom + lr · g / √(ms + epsilon); var −= mom. If centred, the root has ms
// − mg² instead of ms, with mg += (1 − rho) · (g − mg).
template <bool kCentered, typename T>
__device__ void ApplyRmsProp(const Step<T>& s) {
  constexpr int kSquares = kCentered ? 2 : 1, kVelocity = kCentered ? 3 : 2;
  const T rest = T(1) - s.scalar(1), g = s.gradient(), before = s.variable(kSquares);
  const T square = before + Times(Times(g, g) - before, rest);
  s.variable(kSquares) = square;
  T variance = square;
  if constexpr (kCentered) {
    const T mean = s.variable(1) + Times(g - s.variable(1), rest);
    s.variable(1) = mean;
    variance = square - Times(mean, mean);
  }
  const T velocity = Times(s.scalar(2), s.variable(kVelocity)) + Times(s.scalar(0), g) / RootOf(variance + s.scalar(3));
  s.variable(kVelocity) = velocity;
  s.variable(0) = s.variable(0) - velocity;
}
struct RmsProp {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyRmsProp<false>(s);
  }
};
struct CenteredRmsProp {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyRmsProp<true>(s);
  }
};

// alpha = lr · √(1 − beta2_power) / (1 − beta1_power); m += (1 − beta1) · (g − m); then v of Adam, v += (1 − beta2) ·
// (g² − v), or of Yogi, v += (1 − beta2) · sign(g² − v) · g²; var = keep · var − alpha · m / (√v + epsilon).
template <bool kYogi, typename T>
__device__ void ApplyAdam(const Step<T>& s, T keep) {
  const T one = T(1), beta1 = s.scalar(3), rest1 = one - beta1, rest2 = one - s.scalar(4);
  const T alpha = Times(s.scalar(2), RootOf(one - s.scalar(1))) / (one - s.scalar(0));
  const T g = s.gradient(), square = Times(g, g), first = s.variable(1), second = s.variable(2);
  const T m = first + Times(g - first, rest1);
  const T change = !kYogi ? square - second : square > second ? square : square < second ? T(0) - square : T(0);
  const T v = second + Times(change, rest2);
  s.variable(1) = m;
  s.variable(2) = v;
  const T direction = s.a.flag != 0 ? Times(g, rest1) + Times(beta1, m) : m;
  const T kept = keep == one ? s.variable(0) : Times(s.variable(0), keep);
  s.variable(0) = kept - Times(direction, alpha) / (RootOf(v) + s.scalar(5));
}
struct Adam {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyAdam<false>(s, T(1));
  }
};
struct AdamW {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyAdam<false>(s, T(1) - Times(s.scalar(2), s.scalar(6)));
  }
};
struct Yogi {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    ApplyAdam<true>(s, T(1));
  }
};

struct AssignAdd {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    s.variable(0) = functions::AddV2::Of<T>(s.variable(0), s.gradient(), T(0));
  }
};
struct AssignSub {
  template <typename T>
  static __device__ void Apply(const Step<T>& s) {
    s.variable(0) = functions::Sub::Of<T>(s.variable(0), s.gradient(), T(0));
  }
};

}  // namespace rules

template <typename Rule, typename T>
__device__ void Apply(const OptimizerArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) Rule::template Apply<T>(Step<T>{a, lane, i});
}

#define RIVULET_GPU_RULE_KERNEL(Rule, T)                                         \
  __global__ void Rule##_##T(OptimizerArguments a) { Apply<rules::Rule, T>(a); } \
  RIVULET_GPU_KERNEL(#Rule "_" #T, OptimizerArguments, Rule##_##T, GridOver(a.count, a.lanes));
#define RIVULET_GPU_OPTIMIZER_KERNELS(op, Rule) \
  RIVULET_GPU_RULE_KERNEL(Rule, float) RIVULET_GPU_RULE_KERNEL(Rule, double)
RIVULET_GPU_OPTIMIZERS(RIVULET_GPU_OPTIMIZER_KERNELS)

#define RIVULET_GPU_ASSIGN_KERNELS(Rule) \
  RIVULET_GPU_RULE_KERNEL(Rule, float)   \
  RIVULET_GPU_RULE_KERNEL(Rule, double)  \
  RIVULET_GPU_RULE_KERNEL(Rule, int32_t) \
  RIVULET_GPU_RULE_KERNEL(Rule, int64_t)
RIVULET_GPU_ASSIGN_KERNELS(AssignAdd)
RIVULET_GPU_ASSIGN_KERNELS(AssignSub)

}  // namespace
}  // namespace rivulet::gpu
