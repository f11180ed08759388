#include "federated/privacy/sampling.h"

#include <cmath>

namespace rivulet::privacy {
namespace {

constexpr double kLarge = 30;  // e^30 is beyond what 1 - rate still changes the digits of

}  // namespace

double SampledLoss(double rate, double loss) {
  if (rate >= 1) return loss;
  return loss > kLarge ? std::log(rate) + loss + std::log1p((1 - rate) / rate * std::exp(-loss))
                       : std::log1p(rate * std::expm1(loss));
}

double UnsampledLoss(double rate, double sampled_loss) {
  if (rate >= 1) return sampled_loss;
  if (sampled_loss > kLarge) {
    return sampled_loss - std::log(rate) + std::log1p(-(1 - rate) * std::exp(-sampled_loss));
  }
  const double power = std::expm1(sampled_loss) / rate;
  return power > -1 ? std::log1p(power) : -HUGE_VAL;
}

}  // namespace rivulet::privacy
