// The 16-bit floating types on a device, with the bits and rounding of engine/tensor/float16.h. nvcc cannot compile
// that header, because it includes the engine's statuses. A test compares every value of both implementations.
#pragma once

#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {

struct Bfloat16 {
  uint16_t bits;
  __device__ static Bfloat16 Of(float value) {
    const uint32_t u = __float_as_uint(value);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x0040u)};
    return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
  }
  __device__ float value() const { return __uint_as_float(uint32_t{bits} << 16); }
};

struct Float16 {
  uint16_t bits;
  __device__ static Float16 Of(float value) {
    uint32_t u = __float_as_uint(value);
    const uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u | ((u >> 13) & 0x3FFu))};
    if (u >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // 2^16 and above
    if (u < 0x38800000u) {  // below 2^-14: float's own addition rounds to a multiple of 2^-24
      return {static_cast<uint16_t>(sign | (__float_as_uint(__fadd_rn(__uint_as_float(u), 0.5f)) - 0x3F000000u))};
    }
    u += 0xC8000FFFu + ((u >> 13) & 1u);  // exponent 127 becomes 15; a carry out of the fraction increments it
    return {static_cast<uint16_t>(sign | (u >> 13))};
  }
  __device__ float value() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
};

}  // namespace rivulet::gpu
