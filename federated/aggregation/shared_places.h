// The random draws for codecs that send values at the same places in all updates of a version. Clients encode and the
// coordinator decodes with them, so they depend on the version alone: runs with different seeds have the same draws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "federated/random/streams.h"

namespace rivulet {

// `part`: its index in the aggregation's spec.
inline Draws DrawsOfPlaces(int64_t base_version, size_t part) {
  return {StreamFor(0, "places", Purpose::kEncode, static_cast<uint32_t>(base_version)), static_cast<uint32_t>(part)};
}

}  // namespace rivulet
