// Computes each element of the output from the elements at the same position of the inputs, broadcast as in NumPy.
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/elementwise.h"
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/elementwise_list.h"

namespace rivulet::gpu {
namespace {

template <typename F, typename T>
__device__ void Unary(const UnaryArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* x = static_cast<const T*>(a.x.of(lane));
  T* y = static_cast<T*>(a.y.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride())
    y[i] = F::template Of<T>(x[i], static_cast<T>(a.parameter));
}

template <typename F, typename T, typename Out>
__device__ void Binary(const BinaryArguments& arguments) {
  const int lane = arguments.lanes.Number(blockIdx.z);
  const T* a = static_cast<const T*>(arguments.a.of(lane));
  const T* b = static_cast<const T*>(arguments.b.of(lane));
  Out* y = static_cast<Out*>(arguments.y.of(lane));
  const T parameter = static_cast<T>(arguments.parameter);
  for (int64_t i = FirstElement(); i < arguments.count; i += ElementStride()) {
    int64_t at[3];
    arguments.walk.At(static_cast<uint32_t>(i), at);
    y[at[0]] = F::template Of<T>(a[at[1]], b[at[2]], parameter);
  }
}

// f(a, b, c) for operands of three types.
template <typename A, typename B, typename F>
__device__ void Ternary(const TernaryArguments& arguments, F f) {
  const int lane = arguments.lanes.Number(blockIdx.z);
  const A* a = static_cast<const A*>(arguments.a.of(lane));
  const B* b = static_cast<const B*>(arguments.b.of(lane));
  const B* c = static_cast<const B*>(arguments.c.of(lane));
  B* y = static_cast<B*>(arguments.y.of(lane));
  for (int64_t i = FirstElement(); i < arguments.count; i += ElementStride()) {
    int64_t at[4];
    arguments.walk.At(static_cast<uint32_t>(i), at);
    y[at[0]] = f(a[at[1]], b[at[2]], c[at[3]]);
  }
}

struct Choose {
  template <typename T>
  __device__ T operator()(bool condition, T x, T y) const {
    return condition ? x : y;
  }
};
// min(max(x, low), high). NaN stays NaN.
struct Clip {
  template <typename T>
  __device__ T operator()(T x, T low, T high) const {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

template <typename T>
__device__ void AddAll(const AddNArguments& a) {
  using Sum = functions::Wrapping<T>;
  const int lane = a.lanes.Number(blockIdx.z);
  T* y = static_cast<T*>(a.y.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    Sum sum = static_cast<Sum>(static_cast<const T*>(a.x[0].of(lane))[i]);
    for (int k = 1; k < a.inputs; ++k) sum += static_cast<Sum>(static_cast<const T*>(a.x[k].of(lane))[i]);
    y[i] = static_cast<T>(sum);
  }
}

#define RIVULET_GPU_UNARY_KERNEL(F, T)                                     \
  __global__ void F##_##T(UnaryArguments a) { Unary<functions::F, T>(a); } \
  RIVULET_GPU_KERNEL(#F "_" #T, UnaryArguments, F##_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_UNARY_FUNCTIONS(RIVULET_GPU_UNARY_KERNEL)
RIVULET_GPU_GELU_FUNCTIONS(RIVULET_GPU_UNARY_KERNEL)

#define RIVULET_GPU_BINARY_KERNEL(F, T)                                         \
  __global__ void F##_##T(BinaryArguments a) { Binary<functions::F, T, T>(a); } \
  RIVULET_GPU_KERNEL(#F "_" #T, BinaryArguments, F##_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_BINARY_FUNCTIONS(RIVULET_GPU_BINARY_KERNEL)
RIVULET_GPU_POWERS(RIVULET_GPU_BINARY_KERNEL)
RIVULET_GPU_GELU_GRAD_FUNCTIONS(RIVULET_GPU_BINARY_KERNEL)

#define RIVULET_GPU_COMPARING_KERNEL(F, T)                                         \
  __global__ void F##_##T(BinaryArguments a) { Binary<functions::F, T, bool>(a); } \
  RIVULET_GPU_KERNEL(#F "_" #T, BinaryArguments, F##_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_COMPARISONS(RIVULET_GPU_COMPARING_KERNEL)
RIVULET_GPU_COMPARING_KERNEL(LogicalAnd, bool)
RIVULET_GPU_COMPARING_KERNEL(LogicalOr, bool)

__global__ void LogicalNot_bool(UnaryArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const bool* x = static_cast<const bool*>(a.x.of(lane));
  bool* y = static_cast<bool*>(a.y.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) y[i] = !x[i];
}
RIVULET_GPU_KERNEL("LogicalNot_bool", UnaryArguments, LogicalNot_bool, GridOver(a.count, a.lanes));

// By the size of an element; the type does not matter.
#define RIVULET_GPU_SELECT_KERNEL(T)                                                \
  __global__ void Select_##T(TernaryArguments a) { Ternary<bool, T>(a, Choose()); } \
  RIVULET_GPU_KERNEL("Select_" #T, TernaryArguments, Select_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_SELECT_KERNEL(uint8_t)
RIVULET_GPU_SELECT_KERNEL(uint16_t)
RIVULET_GPU_SELECT_KERNEL(uint32_t)
RIVULET_GPU_SELECT_KERNEL(uint64_t)

#define RIVULET_GPU_CLIP_KERNEL(F, T)                                       \
  __global__ void F##_##T(TernaryArguments a) { Ternary<T, T>(a, Clip()); } \
  RIVULET_GPU_KERNEL(#F "_" #T, TernaryArguments, F##_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_SIGNED(RIVULET_GPU_CLIP_KERNEL, ClipByValue)

#define RIVULET_GPU_ADDN_KERNEL(F, T)                        \
  __global__ void F##_##T(AddNArguments a) { AddAll<T>(a); } \
  RIVULET_GPU_KERNEL(#F "_" #T, AddNArguments, F##_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_SIGNED(RIVULET_GPU_ADDN_KERNEL, AddN)

}  // namespace
}  // namespace rivulet::gpu
