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

}  // namespace rivulet::privacy
