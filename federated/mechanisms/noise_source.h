// The randomness of exact noise that a client adds to its update.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/base/draws.h"
#include "federated/privacy/integer_noise.h"

namespace rivulet {

// Values of the setting "source": the system's generator for protective noise, or the task's stream, which anyone with
// the run's seed can repeat, for simulations.
inline constexpr char kSecureSource[] = "secure", kSeededSource[] = "seeded";

inline StatusOr<privacy::NoiseKey> NoiseKeyFrom(bool seeded, Draws& draws) {
  if (!seeded) return privacy::NoiseKey::Generate();
  privacy::NoiseKey::Bytes bytes{};
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t word = draws.Word64();
    std::memcpy(bytes.data() + i, &word, sizeof(word));
  }
  return privacy::NoiseKey::FromBytes(bytes);
}

}  // namespace rivulet
