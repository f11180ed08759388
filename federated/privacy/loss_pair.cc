#include "federated/privacy/loss_pair.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "federated/privacy/discrete.h"
#include "federated/privacy/gaussian.h"
#include "federated/privacy/sampling.h"

namespace rivulet::privacy {
namespace {

// Deviations of the Gaussian that are integrated. Beyond lies less than kLeftOut on either side.
constexpr double kDeviations = 12;
constexpr double kLeftOut = 2e-33;

// The member is there: P = (1 - q) N(0, s^2) + q N(1, s^2), Q = N(0, s^2).
class GaussianWith final : public LossSegment {
 public:
  GaussianWith(double noise, double rate, double begin)
      : LossSegment(begin, 1 + kDeviations * noise, 0.04 * noise), noise_(noise), rate_(rate) {}
  double Loss(double x) const override { return SampledLoss(rate_, (2 * x - 1) / (2 * noise_ * noise_)); }
  double Density(double x) const override {
    const double z = x / noise_;
    return std::exp(Loss(x) - z * z / 2) / (noise_ * std::sqrt(2 * std::numbers::pi));
  }
  double PlaceOf(double loss) const override { return noise_ * noise_ * UnsampledLoss(rate_, loss) + 0.5; }

 private:
  const double noise_, rate_;
};

// The member is missing: P and Q of GaussianWith exchanged, at the place -x.
class GaussianWithout final : public LossSegment {
 public:
  GaussianWithout(double noise, double rate, double end)
      : LossSegment(-1 - kDeviations * noise, end, 0.04 * noise), noise_(noise), rate_(rate) {}
  double Loss(double x) const override { return -SampledLoss(rate_, (-2 * x - 1) / (2 * noise_ * noise_)); }
  double Density(double x) const override {
    const double z = x / noise_;
    return std::exp(-z * z / 2) / (noise_ * std::sqrt(2 * std::numbers::pi));
  }
  double PlaceOf(double loss) const override { return -noise_ * noise_ * UnsampledLoss(rate_, -loss) - 0.5; }

 private:
  const double noise_, rate_;
};

// Between the atoms of Laplace noise at 0 and 1, with the member or (place -x) without.
class LaplaceBetween final : public LossSegment {
 public:
  LaplaceBetween(double scale, double rate, bool with)
      : LossSegment(with ? 0 : -1, with ? 1 : 0, std::min(0.05, 0.05 * scale)),
        scale_(scale),
        rate_(rate),
        with_(with) {}
  double Loss(double x) const override {
    return with_ ? SampledLoss(rate_, (2 * x - 1) / scale_) : -SampledLoss(rate_, (-2 * x - 1) / scale_);
  }
  double Density(double x) const override {
    return std::exp((with_ ? Loss(x) : 0) - std::abs(x) / scale_) / (2 * scale_);
  }
  double PlaceOf(double loss) const override {
    return with_ ? (scale_ * UnsampledLoss(rate_, loss) + 1) / 2 : -(scale_ * UnsampledLoss(rate_, -loss) + 1) / 2;
  }

 private:
  const double scale_, rate_;
  const bool with_;
};

std::vector<LossPair> GaussianPairs(double noise, double rate) {
  LossPair with{.below = kLeftOut, .infinite = kLeftOut}, without = with;
  with.pieces.push_back({.segment = std::make_shared<GaussianWith>(noise, rate, -kDeviations * noise)});
  without.pieces.push_back({.segment = std::make_shared<GaussianWithout>(noise, rate, kDeviations * noise)});
  return {std::move(with), std::move(without)};
}

// A subset of fixed size under replace-one. By Balle, Barthe and Gaboardi 2018 the curve of delta above epsilon 0 is at
// most that of ((1 - q) Q + q P, Q) with P and Q of a replaced member; and since replacing is symmetric, the curve
// below 0 is its mirror image: mass p(l) at the loss l > 0 stands against p(l) e^-l at -l, and the rest is at 0.
LossPair FixedCohortPair(double noise, double rate) {
  const double above = NormalCdf(0.5 / noise), beyond = NormalCdf(-0.5 / noise);
  const double with = (1 - rate) * beyond + rate * above;
  LossPair pair{.below = kLeftOut, .infinite = kLeftOut};
  pair.pieces.push_back({.segment = std::make_shared<GaussianWithout>(noise, rate, -0.5)});
  pair.pieces.push_back({.atom = {.loss = 0, .mass = std::max(0.0, 1 - with - beyond)}});
  pair.pieces.push_back({.segment = std::make_shared<GaussianWith>(noise, rate, 0.5)});
  return pair;
}

std::vector<LossPair> LaplacePairs(double scale, double rate) {
  const double most = SampledLoss(rate, 1 / scale), least = SampledLoss(rate, -1 / scale);
  const double far = std::exp(-1 / scale) / 2;
  LossPair with, without;
  with.pieces = {{.atom = {least, (1 - rate) / 2 + rate * far}},
                 {.segment = std::make_shared<LaplaceBetween>(scale, rate, true)},
                 {.atom = {most, (1 - rate) * far + rate / 2}}};
  without.pieces = {{.atom = {-most, far}},
                    {.segment = std::make_shared<LaplaceBetween>(scale, rate, false)},
                    {.atom = {-least, 0.5}}};
  return {std::move(with), std::move(without)};
}

// Of laws on integers, from their masses in rising order of `loss` (log of `shifted` over `centred`).
std::vector<LossPair> AtomPairs(const std::vector<LatticeOutcome>& outcomes, double rate, double left_out) {
  LossPair with{.below = left_out, .infinite = left_out}, without = with;
  for (const LatticeOutcome& outcome : outcomes) {
    const double loss = SampledLoss(rate, outcome.loss);
    with.pieces.push_back({.atom = {loss, (1 - rate) * outcome.centred + rate * outcome.shifted}});
    without.pieces.push_back({.atom = {-loss, outcome.centred}});
  }
  std::reverse(without.pieces.begin(), without.pieces.end());
  return {std::move(with), std::move(without)};
}

}  // namespace

std::vector<LossPair> LossPairsOf(const NoisedRounds& rounds, Relation relation) {
  const double factor = relation == Relation::kReplaceOne ? 2 : 1;
  const double noise = rounds.multiplier / factor, rate = rounds.sampled() ? rounds.rate : 1;
  std::vector<LossPair> pairs;
  if (rounds.noise == NoiseLaw::kGaussian) {
    if (rounds.sampling == SamplingKind::kFixed && rate < 1) {
      pairs.push_back(FixedCohortPair(noise, rate));
      return pairs;
    }
    pairs = GaussianPairs(noise, rate);
  } else if (rounds.noise == NoiseLaw::kLaplace && rounds.dimension == 1) {
    pairs = LaplacePairs(noise, rate);
  } else if (rounds.noise == NoiseLaw::kDiscreteGaussian) {
    const auto shift = static_cast<int64_t>(rounds.sensitivity * factor);
    pairs = AtomPairs(DiscreteGaussianOutcomes(rounds.multiplier * rounds.sensitivity, shift), rate, 1e-31);
  } else if (rounds.noise == NoiseLaw::kDiscreteLaplace && rounds.dimension == 1 &&
             rounds.sensitivity == std::floor(rounds.sensitivity)) {
    const auto shift = static_cast<int64_t>(rounds.sensitivity * factor);
    pairs = AtomPairs(DiscreteLaplaceOutcomes(rounds.multiplier * rounds.sensitivity, shift), rate, 0);
  } else {
    // Laplace noise on vectors is 1 / noise differentially private, and randomised response dominates whatever is.
    const double rare = 1 / (1 + std::exp(1 / noise));
    pairs = AtomPairs({{.loss = -1 / noise, .centred = 1 - rare, .shifted = rare},
                       {.loss = 1 / noise, .centred = rare, .shifted = 1 - rare}},
                      rate, 0);
  }
  if (rate >= 1) pairs.pop_back();  // both directions are alike
  return pairs;
}

std::vector<LossAtom> LossNodes(const LossPair& pair) {
  std::vector<LossAtom> nodes;
  const double gauss = 0.5 / std::sqrt(3.0);
  for (const LossPiece& piece : pair.pieces) {
    if (piece.segment == nullptr) {
      nodes.push_back(piece.atom);
      continue;
    }
    const LossSegment& segment = *piece.segment;
    const double panels = std::ceil((segment.end - segment.begin) / segment.panel);
    const double width = (segment.end - segment.begin) / panels;
    for (double i = 0; i < panels; ++i) {
      for (const double at : {0.5 - gauss, 0.5 + gauss}) {
        const double place = segment.begin + (i + at) * width;
        nodes.push_back({.loss = segment.Loss(place), .mass = segment.Density(place) * width / 2});
      }
    }
  }
  std::erase_if(nodes, [](const LossAtom& node) { return !(node.mass > 0); });
  return nodes;
}

double LogMoment(std::span<const LossAtom> nodes, double tilt) {
  double most = -HUGE_VAL;
  for (const LossAtom& node : nodes) most = std::max(most, tilt * node.loss);
  double sum = 0;
  for (const LossAtom& node : nodes) sum += node.mass * std::exp(tilt * node.loss - most);
  return most + std::log(sum);
}

}  // namespace rivulet::privacy
