#include "federated/privacy/renyi.h"

#include <algorithm>
#include <cmath>

#include "federated/privacy/discrete.h"
#include "federated/privacy/loss_pair.h"
#include "federated/privacy/sampled_gaussian.h"

namespace rivulet::privacy {
namespace {

// The conversion divides by order - 1 and is of no use close to 1.
constexpr double kLeastOrder = 1.01;

// Divergences of pairs of laws, from their privacy losses: the larger direction.
double RenyiOfPairs(const std::vector<LossPair>& directions, double order) {
  double most = 0;
  for (const LossPair& pair : directions) most = std::max(most, LogMoment(LossNodes(pair), order - 1) / (order - 1));
  return most;
}

double RenyiOfOne(const NoisedRounds& rounds, Relation relation, double order) {
  const bool replace = relation == Relation::kReplaceOne;
  const double noise = rounds.multiplier / (replace ? 2 : 1);
  if (!(rounds.rate > 0) && rounds.sampling != SamplingKind::kNone) return 0;
  if (!(noise > 0)) return HUGE_VAL;
  switch (rounds.noise) {
    case NoiseLaw::kGaussian:
    case NoiseLaw::kDiscreteGaussian:
      break;
    case NoiseLaw::kLaplace:
    case NoiseLaw::kDiscreteLaplace:
      return RenyiOfPairs(LossPairsOf(rounds, relation), order);
  }
  if (rounds.noise == NoiseLaw::kGaussian) {
    if (rounds.sampling == SamplingKind::kFixed) return FixedSizeGaussianRenyi(noise, rounds.rate, order);
    return SampledGaussianRenyi(noise, rounds.sampled() ? rounds.rate : 1, order);
  }
  // The discrete Gaussian: the moments of the continuous one bound its own, and a sum of several is within a factor of
  // one of them, which costs (2 order - 1) / (order - 1) of its logarithm.
  const double apart = SumLogRatio(rounds);
  const double factor = (2 * order - 1) / (order - 1) * apart;
  if (!rounds.sampled()) {
    const double concentrated = ConcentratedOfDiscreteGaussian(rounds, relation);
    return std::min(order * concentrated, order / (2 * noise * noise) + factor);
  }
  if (rounds.sampling == SamplingKind::kFixed) return FixedSizeGaussianRenyi(noise, rounds.rate, order) + factor;
  return SampledDiscreteGaussianRenyi(noise, rounds.rate, order) + factor;
}

// delta <= sqrt(1 - e^-KL), and every divergence of an order above 1 bounds KL.
double LogDeltaOfKullbackLeibler(double divergence) { return 0.5 * std::log(-std::expm1(-divergence)); }

double LogDeltaAt(double order, double divergence, double epsilon) {
  if (divergence <= 0) return -HUGE_VAL;
  double log = LogDeltaOfKullbackLeibler(divergence);
  if (order > kLeastOrder) {
    log = std::min(log, (order - 1) * (divergence - epsilon + std::log1p(-1 / order)) - std::log(order));
  }
  return log;
}

double EpsilonAt(double order, double divergence, double delta) {
  if (divergence <= 0 || delta * delta + std::expm1(-divergence) > 0) return 0;
  if (order <= kLeastOrder || !(delta > 0)) return HUGE_VAL;
  return std::max(0.0, divergence + std::log1p(-1 / order) - std::log(delta * order) / (order - 1));
}

}  // namespace

std::vector<double> DefaultOrders() {
  std::vector<double> orders;
  for (int tenth = 11; tenth < 110; ++tenth) orders.push_back(tenth / 10.0);
  for (int whole = 11; whole < 64; ++whole) orders.push_back(whole);
  for (const int whole : {128, 256, 512, 1024}) orders.push_back(whole);
  return orders;
}

StatusOr<std::vector<double>> RenyiCurve(const Composition& composition, std::span<const double> orders) {
  RIVULET_RETURN_IF_ERROR(Check(composition));
  std::vector<double> curve(orders.size(), 0);
  for (const NoisedRounds& rounds : composition.rounds) {
    if (rounds.count == 0) continue;
    for (size_t i = 0; i < orders.size(); ++i) {
      curve[i] += static_cast<double>(rounds.count) * RenyiOfOne(rounds, composition.relation, orders[i]);
    }
  }
  return curve;
}

RenyiBound RenyiEpsilon(std::span<const double> orders, std::span<const double> curve, double delta) {
  RenyiBound best{.value = HUGE_VAL};
  for (size_t i = 0; i < orders.size(); ++i) {
    const double epsilon = EpsilonAt(orders[i], curve[i], delta);
    if (epsilon < best.value) best = {.value = epsilon, .order = orders[i]};
  }
  return best;
}

RenyiBound RenyiDelta(std::span<const double> orders, std::span<const double> curve, double epsilon) {
  RenyiBound best{.value = 1};
  for (size_t i = 0; i < orders.size(); ++i) {
    const double delta = std::exp(LogDeltaAt(orders[i], curve[i], epsilon));
    if (delta < best.value) best = {.value = delta, .order = orders[i]};
  }
  return best;
}

}  // namespace rivulet::privacy
