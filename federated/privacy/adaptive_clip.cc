#include "federated/privacy/adaptive_clip.h"

#include <algorithm>
#include <cmath>

namespace rivulet::privacy {

double NextClip(const AdaptiveClip& rule, double clip, double noised_sum, double planned) {
  const double share = (noised_sum / planned + 1) / 2;
  return std::clamp(clip * std::exp(-rule.learning_rate * (share - rule.quantile)), rule.least, rule.most);
}

double CombinedMultiplier(double update_multiplier, double count_deviation) {
  return 1 / std::hypot(1 / update_multiplier, 1 / count_deviation);
}

double UpdateMultiplierFor(double combined, double count_deviation) {
  if (!(count_deviation > combined)) return HUGE_VAL;
  // 1/combined^2 - 1/count^2 as a product, which keeps the digits where both are close.
  const double inverse = 1 / combined, count = 1 / count_deviation;
  return 1 / std::sqrt((inverse - count) * (inverse + count));
}

// Both together spend `combined` where the noise is that of the updates, z_delta S, and a 1 is w units: the deviation
// over a 1 is then combined (1 + (S / w)^2)^1/2.
StatusOr<CountUnits> CountUnitsFor(double combined, double count_deviation, double sensitivity) {
  const double ratio = count_deviation / combined;
  const double most = ratio > 1 ? sensitivity / std::sqrt((ratio - 1) * (ratio + 1)) : 0;
  if (!(most >= 1) || std::isinf(most)) {
    return OutOfRange(
        "a count with noise of the deviation {} beside updates of {} units and a multiplier of {}; it needs finer "
        "units, and a deviation above the multiplier",
        count_deviation, sensitivity, combined);
  }
  CountUnits count;
  count.units = int64_t{1} << std::min(static_cast<int>(std::floor(std::log2(most))), 32);
  count.deviation = combined * std::hypot(1.0, sensitivity / static_cast<double>(count.units));
  return count;
}

}  // namespace rivulet::privacy
