// What an aggregation is made from: constants of the plan, the same simulated, deployed, in tiers and asynchronously.
//
// With f = weight_fraction_bits and U = updates_per_version:
//
//   W       = round(w × 2^f), 1 ≤ W ≤ Wmax = max_weight × 2^f < 2^29
//   s       = sum_bits − 2 − value_bits − ceil(log2(U × Wmax)) − staleness_bits, at least 0
//   addend  = W × value, rounded once (to nearest, ties to even) to a multiple of 2^-s
//
// so that sums stay below 2^(sum_bits − 2 − staleness_bits) units, whatever arrives.
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
  int value_bits = 10;  // |value| <= 2^value_bits; -30 .. 30
  int64_t min_updates = 1;
  int sum_bits = 64;             // 64, or 32 under masks
  int weight_fraction_bits = 0;  // weights are whole numbers of 2^-f; 0 .. 28
  int staleness_bits = 0;        // left free for the factor that a stale sum is multiplied by at the end; 0 .. 8

  // Of a valid spec.
  int64_t weight_bound() const { return max_weight << weight_fraction_bits; }  // Wmax
  int fraction_bits() const;                                                   // s
};

// INVALID_ARGUMENT names the key that is out of range (server.value_bits, server.max_weight,
// server.weight_fraction_bits, server.clients_per_round, server.min_reports), or says how many bits are missing and
// which of them to lower.
Status ValidateSpec(const AggregationSpec& spec);

}  // namespace rivulet
