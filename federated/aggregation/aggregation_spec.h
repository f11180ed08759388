// What an aggregation is made from: constants of the plan, the same simulated, deployed, in tiers and asynchronously.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"

namespace rivulet {

// A weight times a float32 is exact in double while the weight has at most 29 bits.
inline constexpr int64_t kMaxWeight = (int64_t{1} << 29) - 1;

struct AggregationSpec {
  std::string rule = "weighted_mean";
  int64_t elements = 0;             // of the delta, wire order
  int64_t updates_per_version = 1;  // at most so many folds
  int64_t max_weight = 65536;
  int value_bits = 10;  // |value| <= 2^value_bits
  int64_t min_updates = 1;
  // s = 62 − value_bits − ceil(log2(updates_per_version × max_weight)): addends are multiples of 2^-s, and sums stay
  // below 2^62 of them. Of a valid spec.
  int fraction_bits() const;
};

// INVALID_ARGUMENT names the field out of range, or says that too few of the 62 bits are left for fractions.
Status ValidateSpec(const AggregationSpec& spec);

}  // namespace rivulet
