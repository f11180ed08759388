// Floating point to integer rounds towards zero and is clamped to the integer's range, NaN to 0, as on the CPU.
#include <limits>

#include "engine/kernels/cuda/cast.h"
#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {
namespace {

template <typename To, typename From>
__device__ To Converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // From may not represent the largest To: compares with the power of two above it.
    constexpr From kAbove = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    constexpr From kLeast = static_cast<From>(std::numeric_limits<To>::min());
    if (!(x > kLeast - From{1} || x >= kLeast)) return x != x ? To{0} : std::numeric_limits<To>::min();
    if (x >= kAbove) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
__device__ void Cast(const UnaryArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const From* x = static_cast<const From*>(a.x.of(lane));
  To* y = static_cast<To*>(a.y.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) y[i] = Converted<To>(x[i]);
}

#define RIVULET_GPU_CAST_KERNEL(From, To)                                     \
  __global__ void Cast_##From##_##To(UnaryArguments a) { Cast<From, To>(a); } \
  RIVULET_GPU_KERNEL("Cast_" #From "_" #To, UnaryArguments, Cast_##From##_##To, GridOver(a.count, a.lanes));
RIVULET_GPU_CASTS(RIVULET_GPU_CAST_KERNEL)

}  // namespace
}  // namespace rivulet::gpu
