// Chains of elementwise functions: each thread computes all steps for its elements before it stores the results.
// Results of steps are in shared memory, a column per thread, because the operands of a step are known only at run
// time. So each is rounded as if stored in memory, and no operation is fused with its neighbour.
#include "engine/gpu/element_chain.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/element_code.h"
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/float16_device.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256;

__device__ inline float Rounded(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double Rounded(double a, double b) { return __dmul_rn(a, b); }

template <typename T>
__device__ T Apply(ElementCode code, T x, T y, T z, T parameter) {
  switch (code) {
#define RIVULET_UNARY_CASE_OF(F) \
  case ElementCode::k##F:        \
    return functions::F::template Of<T>(x, parameter);
#define RIVULET_BINARY_CASE_OF(F) \
  case ElementCode::k##F:         \
    return functions::F::template Of<T>(x, y, parameter);
#define RIVULET_COMPARISON_CASE_OF(F) \
  case ElementCode::k##F:             \
    return functions::F::template Of<T>(x, y, parameter) ? T(1) : T(0);
#define RIVULET_UNARY_CASE(F, T) RIVULET_ELEMENT_OF_##T(RIVULET_UNARY_CASE_OF, F)
#define RIVULET_BINARY_CASE(F, T) RIVULET_ELEMENT_OF_##T(RIVULET_BINARY_CASE_OF, F)
#define RIVULET_COMPARISON_CASE(F, T) RIVULET_ELEMENT_OF_##T(RIVULET_COMPARISON_CASE_OF, F)
    RIVULET_GPU_UNARY_FUNCTIONS(RIVULET_UNARY_CASE)
    RIVULET_GPU_GELU_FUNCTIONS(RIVULET_UNARY_CASE)
    RIVULET_GPU_BINARY_FUNCTIONS(RIVULET_BINARY_CASE)
    RIVULET_GPU_GELU_GRAD_FUNCTIONS(RIVULET_BINARY_CASE)
    RIVULET_GPU_COMPARISONS(RIVULET_COMPARISON_CASE)
    case ElementCode::kLogicalAnd:
      return x != T(0) && y != T(0) ? T(1) : T(0);
    case ElementCode::kLogicalOr:
      return x != T(0) || y != T(0) ? T(1) : T(0);
    case ElementCode::kLogicalNot:
      return x != T(0) ? T(0) : T(1);
    case ElementCode::kSelect:
      return x != T(0) ? y : z;
    case ElementCode::kClipByValue: {
      const T raised = x < y ? y : x;
      return raised > z ? z : raised;
    }
    case ElementCode::kTimes:
      return Rounded(x, y);
    case ElementCode::kCopy:
      return x;
    case ElementCode::kToBfloat16:
      return static_cast<T>(Bfloat16::Of(static_cast<float>(x)).value());
    case ElementCode::kToFloat16:
      return static_cast<T>(Float16::Of(static_cast<float>(x)).value());
  }
  return T(0);
}

template <typename T>
__device__ T Load(const std::byte* from, ElementType type, uint32_t at) {
  switch (type) {
    case ElementType::kOwn:
      return reinterpret_cast<const T*>(from)[at];
    case ElementType::kBool:
      return reinterpret_cast<const bool*>(from)[at] ? T(1) : T(0);
    case ElementType::kBfloat16:
      return static_cast<T>(reinterpret_cast<const Bfloat16*>(from)[at].value());
    case ElementType::kFloat16:
      return static_cast<T>(reinterpret_cast<const Float16*>(from)[at].value());
  }
  return T(0);
}

template <typename T>
__device__ void Store(std::byte* to, ElementType type, uint32_t at, T value) {
  switch (type) {
    case ElementType::kOwn:
      reinterpret_cast<T*>(to)[at] = value;
      break;
    case ElementType::kBool:
      reinterpret_cast<bool*>(to)[at] = value != T(0);
      break;
    case ElementType::kBfloat16:
      reinterpret_cast<Bfloat16*>(to)[at] = Bfloat16::Of(static_cast<float>(value));
      break;
    case ElementType::kFloat16:
      reinterpret_cast<Float16*>(to)[at] = Float16::Of(static_cast<float>(value));
      break;
  }
}

template <typename T>
__device__ void RunChain(const ElementChainArguments& a) {
  __shared__ T slots[kMostElementSlots][kThreads];
  const auto lane = static_cast<size_t>(Lanes{a.lanes, a.ids}.Number(blockIdx.z));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const auto operand = [&](uint8_t from) {
      if (from >= kMostElementSources) return slots[from - kMostElementSources][threadIdx.x];
      const ElementPlace& place = a.places[from];
      uint32_t at = static_cast<uint32_t>(i);
      if (place.divide != 1) at /= place.divide;
      if (place.modulo != 0) at = place.modulo == 1 ? 0 : at % place.modulo;
      return Load<T>(a.sources[from] + a.source_strides[from] * lane, place.type, at);
    };
    for (int step = 0; step < a.step_count; ++step) {
      const ElementStepArguments& s = a.steps[step];
      const T x = operand(s.operands[0]);
      const T y = s.operands[1] == s.operands[0] ? x : operand(s.operands[1]);
      const T z = s.operands[2] == s.operands[0] ? x : operand(s.operands[2]);
      slots[s.slot][threadIdx.x] =
          Apply<T>(static_cast<ElementCode>(s.code), x, y, z, static_cast<T>(a.parameters[step]));
    }
    for (int target = 0; target < a.target_count; ++target) {
      Store<T>(a.targets[target] + a.target_strides[target] * lane, a.target_types[target], static_cast<uint32_t>(i),
               slots[a.target_slots[target]][threadIdx.x]);
    }
  }
}

__global__ void __launch_bounds__(kThreads) ElementChain_float(ElementChainArguments a) { RunChain<float>(a); }
__global__ void __launch_bounds__(kThreads) ElementChain_double(ElementChainArguments a) { RunChain<double>(a); }
RIVULET_GPU_KERNEL("element_chain_float", ElementChainArguments, ElementChain_float,
                   GridOver(a.count, Lanes{a.lanes, a.ids}));
RIVULET_GPU_KERNEL("element_chain_double", ElementChainArguments, ElementChain_double,
                   GridOver(a.count, Lanes{a.lanes, a.ids}));

}  // namespace
}  // namespace rivulet::gpu
