// The two 16-bit floating types as C++ values, for storage only; arithmetic uses float. Explicit conversion rounds a
// float to the nearest value (ties to even). Conversion to float is exact. NaN stays NaN, and is made quiet.
//
//   bfloat16: float's range, 8 significant bits.      float16: 11 significant bits, from 2^-24 to 65504.
#pragma once

#include <bit>
#include <cstdint>

#include "engine/tensor/dtype.h"

namespace rivulet {

struct bfloat16 {
  uint16_t bits = 0;
  constexpr bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(FromFloat(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }  // NOLINT: exact
  static constexpr bfloat16 FromBits(uint16_t bits) {
    bfloat16 value;
    value.bits = bits;
    return value;
  }

 private:
  static constexpr uint16_t FromFloat(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((u >> 16) | 0x0040u);
    return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
  }
};

struct float16 {
  uint16_t bits = 0;
  constexpr float16() = default;
  constexpr explicit float16(float value) : bits(FromFloat(value)) {}
  constexpr operator float() const {  // NOLINT: exact
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  static constexpr float16 FromBits(uint16_t bits) {
    float16 value;
    value.bits = bits;
    return value;
  }

 private:
  static constexpr uint16_t FromFloat(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((u >> 13) & 0x3FFu));
    if (u >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 2^16 and above
    if (u < 0x38800000u) {  // below 2^-14: float's own addition rounds to a multiple of 2^-24
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(u) + 0.5f) - 0x3F000000u));
    }
    u += 0xC8000FFFu + ((u >> 13) & 1u);  // exponent 127 becomes 15; a carry out of the fraction rounds the exponent up
    return static_cast<uint16_t>(sign | u >> 13);
  }
};

template <>
inline constexpr DType kDTypeOf<bfloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<float16> = DType::kFloat16;

inline bool Is16BitFloat(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

// Converts `count` elements of kBFloat16 or kFloat16 to float, or back with rounding. `from` and `to` must not overlap.
void Float32From16(DType from_type, const std::byte* from, float* to, int64_t count);
void Float16From32(DType to_type, const float* from, std::byte* to, int64_t count);

}  // namespace rivulet
