#include "federated/selection/poisson_draw.h"

#include <cmath>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/sha256.h"

namespace rivulet {
namespace {

std::string_view BytesOf(const privacy::NoiseKey& key) {
  return {reinterpret_cast<const char*>(key.data()), privacy::NoiseKey::kBytes};
}

uint64_t First64(const Digest& digest) {
  uint64_t word = 0;
  for (size_t i = 8; i-- > 0;) word = word << 8 | digest.bytes[i];
  return word;
}

}  // namespace

privacy::NoiseKey CohortKey(const privacy::NoiseKey& key, int64_t version) {
  auto derived = key.Derive(static_cast<uint64_t>(version), privacy::NoisePurpose::kCohort);
  RIVULET_CHECK(derived.ok(), "{}", Message(derived.status()));
  return *std::move(derived);
}

// Another prefix than for names, so that draws reveal nothing about the seed.
uint64_t SeedOf(const privacy::NoiseKey& cohort_key) {
  return First64(std::move(Sha256().Update("rivulet cohort seed").Update(BytesOf(cohort_key))).Finish());
}

PoissonDraw::PoissonDraw(const privacy::NoiseKey& cohort_key, double rate)
    : key_(privacy::NoiseKey::FromBytes(
          std::span<const uint8_t, privacy::NoiseKey::kBytes>(cohort_key.data(), privacy::NoiseKey::kBytes))),
      below_(static_cast<uint64_t>(std::ldexp(rate, 64))) {}

bool PoissonDraw::Has(std::string_view client_id) const {
  return First64(std::move(Sha256().Update(BytesOf(key_)).Update(client_id)).Finish()) < below_;
}

}  // namespace rivulet
