// The part of CUDA's language used by Rivulet's device code, for the host's compiler. Kernels run on the emulated
// device (emulated_backend.h): blocks one after the other, the threads of a block in turns that end at __syncthreads().
//
// Functions with a rounding in their name round like CUDA's. Functions that CUDA approximates (__expf) are exact here,
// so a kernel that uses them needs a tolerance.
#pragma once

#include <math.h>  // with global names, as in CUDA

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
// Memory of the running block: blocks of one host thread run one after the other. A block finds the contents left by
// the previous one, as on a device.
#define __shared__ static thread_local
#define __launch_bounds__(...)

struct uint3 {
  uint32_t x = 0, y = 0, z = 0;
};
struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int32_t x, y;
};
struct alignas(16) int4 {
  int32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int32_t x, int32_t y) { return {x, y}; }
inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

namespace rivulet::gpu::emulated {

// Puts `body`, one thread's work, into the stream for each thread of each block. Returns an error of gpu_api.h.
int Launch(void* stream, const char* name, uint32_t blocks_x, uint32_t blocks_y, uint32_t blocks_z, uint32_t threads,
           std::function<void()> body);

// Waits for every thread of the block. The launch fails if the threads of a block reach different barriers, which is
// undefined on a device.
void Synchronize(int line);

// Ends the running launch with an error, like a trap.
[[noreturn]] void Trap();

}  // namespace rivulet::gpu::emulated

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;

inline void __syncthreads(int line = __builtin_LINE()) { rivulet::gpu::emulated::Synchronize(line); }
[[noreturn]] inline void __trap() { rivulet::gpu::emulated::Trap(); }

// Bits.
template <typename To, typename From>
inline To rivulet_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}
inline int32_t __float_as_int(float x) { return rivulet_bits<int32_t>(x); }
inline uint32_t __float_as_uint(float x) { return rivulet_bits<uint32_t>(x); }
inline float __int_as_float(int32_t x) { return rivulet_bits<float>(x); }
inline float __uint_as_float(uint32_t x) { return rivulet_bits<float>(x); }
inline long long __double_as_longlong(double x) { return rivulet_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return rivulet_bits<double>(x); }
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __popcll(uint64_t x) { return __builtin_popcountll(x); }
inline int __clz(int32_t x) { return x == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(x)); }
inline int __clzll(int64_t x) { return x == 0 ? 64 : __builtin_clzll(static_cast<uint64_t>(x)); }
inline int __ffs(int32_t x) { return __builtin_ffs(x); }

// Integers.
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>((static_cast<Wide>(a) * b) >> 64);
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long min(long a, long b) { return a < b ? a : b; }
inline long max(long a, long b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }

// Floats, rounded to nearest and never fused unless the name says so: the device's sources are compiled with
// -ffp-contract=off here. Subnormal numbers follow the host thread's mode.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline float rsqrtf(float a) { return 1.0f / __builtin_sqrtf(a); }
inline float __expf(float a) { return __builtin_expf(a); }
inline float __logf(float a) { return __builtin_logf(a); }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }

// Conversions to nearest (ties to even), or toward zero; saturating, and NaN becomes 0.
template <typename Integer, typename Real>
inline Integer rivulet_saturate(Real x, Real low, Real high) {  // `high`: the first power of two that does not fit
  if (!(x == x)) return 0;
  if (x < low) return std::numeric_limits<Integer>::min();
  if (x >= high) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(x);
}
inline int __float2int_rn(float x) { return rivulet_saturate<int32_t>(__builtin_rintf(x), -0x1p31f, 0x1p31f); }
inline int __float2int_rz(float x) { return rivulet_saturate<int32_t>(__builtin_truncf(x), -0x1p31f, 0x1p31f); }
inline int __float2int_rd(float x) { return rivulet_saturate<int32_t>(__builtin_floorf(x), -0x1p31f, 0x1p31f); }
inline unsigned __float2uint_rn(float x) { return rivulet_saturate<uint32_t>(__builtin_rintf(x), 0.0f, 0x1p32f); }
inline unsigned __float2uint_rz(float x) { return rivulet_saturate<uint32_t>(__builtin_truncf(x), 0.0f, 0x1p32f); }
inline long long __float2ll_rn(float x) { return rivulet_saturate<int64_t>(__builtin_rintf(x), -0x1p63f, 0x1p63f); }
inline long long __double2ll_rn(double x) { return rivulet_saturate<int64_t>(__builtin_rint(x), -0x1p63, 0x1p63); }
inline long long __double2ll_rz(double x) { return rivulet_saturate<int64_t>(__builtin_trunc(x), -0x1p63, 0x1p63); }
inline int __double2int_rn(double x) { return rivulet_saturate<int32_t>(__builtin_rint(x), -0x1p31, 0x1p31); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }

template <typename T>
inline T __ldg(const T* at) {
  return *at;
}

// For integers only: their sums do not depend on the order.
template <typename Integer>
inline Integer rivulet_atomic_add(Integer* at, Integer by) {
  return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
}
inline int atomicAdd(int* at, int by) { return rivulet_atomic_add(at, by); }
inline unsigned atomicAdd(unsigned* at, unsigned by) { return rivulet_atomic_add(at, by); }
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long by) {
  return rivulet_atomic_add(at, by);
}
inline int atomicOr(int* at, int bits) { return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }
inline unsigned atomicOr(unsigned* at, unsigned bits) { return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }
inline unsigned atomicMax(unsigned* at, unsigned value) {
  unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
