// float32 arithmetic with the bits of the host's training threads (EnterWorkerThread): a subnormal operand or result is
// a zero of its sign. A result is judged as if its exponent were unbounded, so a result that rounds up to the least
// normal number is kept.
#pragma once

#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/fold_values.h"

namespace rivulet::gpu {

__device__ inline float HostFloat(float value) {
  const int32_t bits = __float_as_int(value);
  return (bits & kMagnitude) < kLeastNormal ? __int_as_float(bits & ~kMagnitude) : value;
}

// Rounds a double.
__device__ inline float HostFloat(double value) {
  constexpr double kRoundsToZero = 0x1p-126 - 0x1p-151;  // below: half a unit short of the least normal number
  if (fabs(value) < kRoundsToZero) return value < 0 || (value == 0 && 1 / value < 0) ? -0.0f : 0.0f;
  return __double2float_rn(value);
}

__device__ inline float HostSum(float a, float b) { return HostFloat(__fadd_rn(HostFloat(a), HostFloat(b))); }
__device__ inline float HostDifference(float a, float b) { return HostFloat(__fsub_rn(HostFloat(a), HostFloat(b))); }
// A product of two float32 is exact in double.
__device__ inline float HostProduct(float a, float b) {
  return HostFloat(__dmul_rn(static_cast<double>(HostFloat(a)), static_cast<double>(HostFloat(b))));
}

// A scale as it is sent (federated/codecs/block_scale.h).
__device__ inline float NormalScale(float scale) { return scale < 0x1p-126f ? 0.0f : scale; }
__device__ inline bool IsFinite(float value) { return (__float_as_int(value) & kMagnitude) < 0x7F800000; }
__device__ inline float NotANumber() { return __int_as_float(0x7FC00000); }
// The next float above a finite one that is not negative.
__device__ inline float NextAbove(float value) { return __int_as_float(__float_as_int(value) + 1); }

}  // namespace rivulet::gpu
