// Reductions over axes. The order in which elements are combined depends on the shape alone: each thread of a team
// takes every parts-th element of its chunk, the team joins as a tree, chunks are joined from the first to the last.
// Sums of floats are in double, as on the CPU.
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/reduction.h"

namespace rivulet::gpu {
namespace {

template <typename T, bool = std::is_integral_v<T>>
struct CarriedBy {
  using Type = double;
};
template <typename T>
struct CarriedBy<T, true> {
  using Type = std::make_unsigned_t<T>;
};

namespace reducers {

template <typename T>
struct Sum {
  using Carry = typename CarriedBy<T>::Type;
  using Result = T;
  static __device__ Carry Neutral() { return Carry(0); }
  static __device__ Carry Enter(T x) { return static_cast<Carry>(x); }
  static __device__ Carry Join(Carry a, Carry b) { return a + b; }
  static __device__ T Of(Carry carry, int64_t) { return static_cast<T>(carry); }
};
template <typename T>
struct Mean : Sum<T> {
  static __device__ T Of(typename Sum<T>::Carry carry, int64_t count) {
    if constexpr (std::is_integral_v<T>)
      return count == 0 ? T(0) : static_cast<T>(static_cast<T>(carry) / static_cast<T>(count));
    else
      return static_cast<T>(carry / static_cast<double>(count));
  }
};
template <typename T>
struct L2Loss : Sum<T> {
  static __device__ double Enter(T x) { return static_cast<double>(x) * static_cast<double>(x); }
  static __device__ T Of(double carry, int64_t) { return static_cast<T>(carry * 0.5); }
};
template <typename T>
struct EuclideanNorm : L2Loss<T> {
  static __device__ T Of(double carry, int64_t) { return static_cast<T>(sqrt(carry)); }
};
template <typename T>
struct Prod : Sum<T> {
  using Carry = typename Sum<T>::Carry;
  static __device__ Carry Neutral() { return Carry(1); }
  static __device__ Carry Join(Carry a, Carry b) { return a * b; }
};
// NaN is kept.
template <typename T>
struct Max {
  using Carry = T;
  using Result = T;
  static __device__ T Neutral() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
  }
  static __device__ T Enter(T x) { return x; }
  static __device__ T Join(T a, T b) { return b > a || b != b ? b : a; }
  static __device__ T Of(T carry, int64_t) { return carry; }
};
template <typename T>
struct Min : Max<T> {
  static __device__ T Neutral() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
  }
  static __device__ T Join(T a, T b) { return b < a || b != b ? b : a; }
};
template <typename T>
struct AllFinite {
  using Carry = bool;
  using Result = bool;
  static __device__ bool Neutral() { return true; }
  static __device__ bool Enter(T x) { return x - x == T(0); }  // x - x is NaN for NaN and infinities
  static __device__ bool Join(bool a, bool b) { return a && b; }
  static __device__ bool Of(bool carry, int64_t) { return carry; }
};
template <typename T>
struct All : AllFinite<T> {
  static __device__ bool Enter(bool x) { return x; }
};
template <typename T>
struct Any : All<T> {
  static __device__ bool Neutral() { return false; }
  static __device__ bool Join(bool a, bool b) { return a || b; }
};

}  // namespace reducers

template <typename R, typename T>
__device__ void Reduce(const ReductionArguments& a) {
  using Carry = typename R::Carry;
  __shared__ Carry shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const T* x = static_cast<const T*>(a.x.of(lane));
  const Team team = TeamOf(a.parts, a.neighbours != 0);
  const int members = kBlockThreads / a.parts;
  const int chunk = static_cast<int>(blockIdx.x) % a.chunks;
  const int result = static_cast<int>(blockIdx.x) / a.chunks * members + team.member;
  const int begin = chunk * a.chunk, end = min(begin + a.chunk, a.count);
  Carry carry = R::Neutral(), last = carry;
  int64_t at[2] = {0, 0};
  if (result < a.results) {
    a.kept.At(static_cast<uint32_t>(result), at);
    for (int i = begin + team.part; i < end; i += a.parts) {
      int64_t from[1];
      a.reduced.At(static_cast<uint32_t>(i), from);
      last = R::Enter(x[at[1] + from[0]]);
      carry = R::Join(carry, last);
    }
  }
  // A single element is returned unchanged, including -0, as on the host.
  const bool one = a.count == 1;
  carry = JoinTeam(team, carry, shared, [](Carry p, Carry q) { return R::Join(p, q); });
  if (team.part != 0 || result >= a.results) return;
  if (one) carry = last;
  if (a.chunks == 1) {
    static_cast<typename R::Result*>(a.y.of(lane))[at[0]] = R::Of(carry, a.count);
  } else {
    uint64_t bits = 0;
    memcpy(&bits, &carry, sizeof(carry));
    a.partial.of(lane)[static_cast<int64_t>(result) * a.chunks + chunk] = bits;
  }
}

template <typename R>
__device__ void JoinChunks(const ReductionArguments& a) {
  using Carry = typename R::Carry;
  const int lane = a.lanes.Number(blockIdx.z);
  for (int64_t result = FirstElement(); result < a.results; result += ElementStride()) {
    Carry carry = R::Neutral();
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      Carry next;
      memcpy(&next, a.partial.of(lane) + result * a.chunks + chunk, sizeof(next));
      carry = R::Join(carry, next);
    }
    int64_t at[2];
    a.kept.At(static_cast<uint32_t>(result), at);
    static_cast<typename R::Result*>(a.y.of(lane))[at[0]] = R::Of(carry, a.count);
  }
}

Grid GridOfReduction(const ReductionArguments& a) {
  const int members = kBlockThreads / a.parts;
  return {static_cast<uint32_t>((a.results + members - 1) / members * a.chunks), 1,
          static_cast<uint32_t>(a.lanes.count), kBlockThreads};
}

#define RIVULET_GPU_REDUCTION_KERNEL(R, T)                                                  \
  __global__ void R##_##T(ReductionArguments a) { Reduce<reducers::R<T>, T>(a); }           \
  RIVULET_GPU_KERNEL(#R "_" #T, ReductionArguments, R##_##T, GridOfReduction(a));           \
  __global__ void R##_##T##_chunks(ReductionArguments a) { JoinChunks<reducers::R<T>>(a); } \
  RIVULET_GPU_KERNEL(#R "_" #T "_chunks", ReductionArguments, R##_##T##_chunks, GridOver(a.results, a.lanes));
RIVULET_GPU_REDUCTIONS(RIVULET_GPU_REDUCTION_KERNEL)
RIVULET_GPU_WHOLE_REDUCTIONS(RIVULET_GPU_REDUCTION_KERNEL)
RIVULET_GPU_LOGIC_REDUCTIONS(RIVULET_GPU_REDUCTION_KERNEL)

// The first of equal extremes. NaN never exceeds anything, and nothing exceeds NaN.
template <typename T, typename Index, bool kLargest>
__device__ void Arg(const ArgArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const T* x = static_cast<const T*>(a.x.of(lane));
  const int64_t inner = a.inner.divisor;
  for (int64_t result = FirstElement(); result < a.results; result += ElementStride()) {
    uint32_t outer = static_cast<uint32_t>(result);
    const uint32_t column = a.inner.Split(outer);
    const T* row = x + static_cast<int64_t>(outer) * a.size * inner + column;
    T best = row[0];
    int at = 0;
    for (int i = 1; i < a.size; ++i) {
      const T value = row[i * inner];
      if (!(kLargest ? value > best : value < best)) continue;
      best = value;
      at = i;
    }
    static_cast<Index*>(a.y.of(lane))[result] = static_cast<Index>(at);
  }
}

#define RIVULET_GPU_ARG_KERNEL(name, largest, T, Index)                               \
  __global__ void name##_##T##_##Index(ArgArguments a) { Arg<T, Index, largest>(a); } \
  RIVULET_GPU_KERNEL(#name "_" #T "_" #Index, ArgArguments, name##_##T##_##Index, GridOver(a.results, a.lanes));
#define RIVULET_GPU_ARG_KERNELS(name, T)                    \
  RIVULET_GPU_ARG_KERNEL(name, name##IsLargest, T, int32_t) \
  RIVULET_GPU_ARG_KERNEL(name, name##IsLargest, T, int64_t)
constexpr bool ArgMaxIsLargest = true, ArgMinIsLargest = false;
RIVULET_GPU_REDUCED_SIGNED(RIVULET_GPU_ARG_KERNELS, ArgMax)
RIVULET_GPU_REDUCED_SIGNED(RIVULET_GPU_ARG_KERNELS, ArgMin)

}  // namespace
}  // namespace rivulet::gpu
