// The draws of codecs by which all updates of a version send values at the same places. Clients encode by them and the
// coordinator reads sums by them, so they follow from the version alone: two runs of different seeds have the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "federated/random/streams.h"

namespace rivulet {

// `part`: its number in the aggregation's spec.
inline Draws DrawsOfPlaces(int64_t base_version, size_t part) {
  return {StreamFor(0, "places", Purpose::kEncode, static_cast<uint32_t>(base_version)), static_cast<uint32_t>(part)};
}

}  // namespace rivulet
