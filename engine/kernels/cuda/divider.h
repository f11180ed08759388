// Division by numbers known when a kernel is prepared, as one multiplication on the device.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

// For numbers below 2^31: Granlund and Montgomery, "Division by invariant integers using multiplication" (1994).
struct Divider {
  uint32_t divisor = 1, multiplier = 0, shift = 0;

  static Divider Of(int64_t divisor) {
    Divider made;
    if (divisor <= 1) return made;  // a divisor of 0 is never used: a tensor without elements is not walked
    made.divisor = static_cast<uint32_t>(divisor);
    uint32_t bits = 0;
    while ((uint64_t{1} << bits) < made.divisor) ++bits;
    made.multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + bits)) + made.divisor - 1) / made.divisor);
    made.shift = bits - 1;
    return made;
  }
  RIVULET_HOST_DEVICE uint32_t Quotient(uint32_t n) const {
    if (divisor == 1) return n;
    return static_cast<uint32_t>((uint64_t{n} * multiplier) >> 32) >> shift;
  }
  // Replaces n by the quotient; returns the remainder.
  RIVULET_HOST_DEVICE uint32_t Split(uint32_t& n) const {
    const uint32_t quotient = Quotient(n), rest = n - quotient * divisor;
    n = quotient;
    return rest;
  }
};

}  // namespace rivulet::gpu
