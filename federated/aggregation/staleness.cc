#include "federated/aggregation/staleness.h"

#include <algorithm>
#include <cmath>

namespace rivulet {

int64_t StalenessFactor(int64_t staleness, double exponent) {
  constexpr int64_t kOne = int64_t{1} << kStalenessBits;
  const double weight = std::pow(1 + static_cast<double>(staleness), -exponent);
  return std::clamp<int64_t>(std::llround(static_cast<double>(kOne) * weight), 1, kOne);
}

Staleness StalenessOf(int64_t version, double exponent) {
  return [version, exponent](int64_t base_version) { return StalenessFactor(version - 1 - base_version, exponent); };
}

}  // namespace rivulet
