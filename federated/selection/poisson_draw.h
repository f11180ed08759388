// Poisson sampling by names: a client is in a version's cohort with a fixed probability, by a pseudo-random function of
// the version's key and the client's name. Draws of different clients are independent, also when members join or leave.
// A retry of a version draws the same set.
#pragma once

#include <cstdint>
#include <string_view>

#include "federated/privacy/noise_key.h"

namespace rivulet {

// The key for one version's draws. The process ends if OpenSSL lacks HKDF.
privacy::NoiseKey CohortKey(const privacy::NoiseKey& key, int64_t version);
// 64 bits derived from the key, for draws that need a seed.
uint64_t SeedOf(const privacy::NoiseKey& cohort_key);

// Immutable, thread-safe.
class PoissonDraw {
 public:
  // `cohort_key`: from CohortKey; 0 < rate < 1.
  PoissonDraw(const privacy::NoiseKey& cohort_key, double rate);
  // Returns true if SHA-256(key ‖ name), read as 64 bits, is below rate · 2^64.
  bool Has(std::string_view client_id) const;

 private:
  privacy::NoiseKey key_;
  uint64_t below_;
};

}  // namespace rivulet
