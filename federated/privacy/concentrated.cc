#include "federated/privacy/concentrated.h"

#include <algorithm>
#include <cmath>

#include "federated/privacy/discrete.h"

namespace rivulet::privacy {
namespace {

// The least value of a convex function of log(order - 1), by golden section.
template <typename F>
double LeastOverOrders(F value) {
  constexpr double kGolden = 0.6180339887498949;
  double low = -20, high = 40;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = value(1 + std::exp(left)), at_right = value(1 + std::exp(right));
  for (int i = 0; i < 100; ++i) {
    if (at_left < at_right) {
      high = right, right = left, at_right = at_left;
      left = high - kGolden * (high - low), at_left = value(1 + std::exp(left));
    } else {
      low = left, left = right, at_left = at_right;
      right = low + kGolden * (high - low), at_right = value(1 + std::exp(right));
    }
  }
  return std::min(at_left, at_right);
}

}  // namespace

StatusOr<double> ConcentratedRho(const Composition& composition) {
  RIVULET_RETURN_IF_ERROR(Check(composition));
  double rho = 0;
  for (const NoisedRounds& rounds : composition.rounds) {
    if (rounds.count == 0 || (rounds.sampling != SamplingKind::kNone && !(rounds.rate > 0))) continue;
    if (rounds.sampled()) {
      return InvalidArgument("zcdp knows no amplification by sampling (rate {}); use pld or rdp", rounds.rate);
    }
    const double noise = rounds.multiplier / (composition.relation == Relation::kReplaceOne ? 2 : 1);
    double one = 1 / (2 * noise * noise);  // also epsilon^2 / 2 of Laplace noise, whose epsilon is 1 / noise
    if (rounds.noise == NoiseLaw::kDiscreteGaussian && noise > 0) {
      one = ConcentratedOfDiscreteGaussian(rounds, composition.relation);
    }
    rho += static_cast<double>(rounds.count) * one;
  }
  return rho;
}

double SimpleEpsilonOfRho(double rho, double delta) {
  return rho > 0 ? rho + 2 * std::sqrt(rho * -std::log(delta)) : 0;
}

double EpsilonOfRho(double rho, double delta) {
  if (!(rho > 0)) return 0;
  if (!(delta > 0) || std::isinf(rho)) return HUGE_VAL;
  const double best = LeastOverOrders(
      [&](double order) { return order * rho + std::log1p(-1 / order) - std::log(delta * order) / (order - 1); });
  return std::clamp(best, 0.0, SimpleEpsilonOfRho(rho, delta));
}

double DeltaOfRho(double rho, double epsilon) {
  if (!(rho > 0)) return 0;
  if (std::isinf(rho)) return 1;
  return std::min(1.0, std::exp(LeastOverOrders([&](double order) {
                    return (order - 1) * (order * rho - epsilon + std::log1p(-1 / order)) - std::log(order);
                  })));
}

}  // namespace rivulet::privacy
