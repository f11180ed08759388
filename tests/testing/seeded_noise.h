// The noise of a composition's sums where it follows from a seed, for tests that make versions again.
#pragma once

#include <memory>
#include <optional>

#include "federated/plan/composition.h"
#include "federated/privacy/sum_noise.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// Nullopt: it has none.
inline std::optional<privacy::SumNoise> SeededNoise(const Composition& composition, const AggregationSpec& spec,
                                                    uint64_t seed) {
  if (!composition.noise.any()) return std::nullopt;
  EXPECT_TRUE(composition.noise.seeded);
  const PartSpec& part = spec.parts.at(0);
  auto noise = privacy::SumNoise::Create(std::make_shared<const privacy::NoiseKey>(privacy::SeededKey(seed)),
                                         composition.noise.multiplier,
                                         {composition.noise.clip, part.elements, spec.fraction_bits(part)},
                                         composition.noise.bands, composition.noise.count_deviation);
  EXPECT_OK(noise);
  return *std::move(noise);
}

}  // namespace rivulet::testing
