#include "federated/privacy/accountant.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "federated/privacy/concentrated.h"
#include "federated/privacy/discrete.h"
#include "federated/privacy/gaussian.h"
#include "federated/privacy/loss_composition.h"
#include "federated/privacy/renyi.h"

namespace rivulet::privacy {
namespace {

// The question: epsilon for delta, or delta for epsilon.
struct Question {
  bool epsilon_wanted = true;
  double given = 0;
};

// A composition without what has no cost, and with discrete Gaussians as continuous ones where their exact law is not
// within reach. By its factor e^log_ratio on both laws of a round, delta(epsilon) <= e^k * delta'(epsilon - 2 k), k the
// sum over the rounds.
struct Reduced {
  Composition composition;
  double log_ratio = 0;
  bool exact = true;      // the pairs are those of the noise itself, so lower bounds hold
  bool no_noise = false;  // some round has none
};

// Exact laws on integers are for one coordinate and up to so many units of noise.
bool HasExactLaw(const NoisedRounds& rounds) {
  return rounds.dimension == 1 && rounds.contributors == 1 && rounds.sampling != SamplingKind::kFixed &&
         rounds.sensitivity == std::floor(rounds.sensitivity) && rounds.sensitivity <= 1e6 &&
         rounds.multiplier * rounds.sensitivity <= 1000;
}

StatusOr<Reduced> Reduce(const Composition& composition) {
  RIVULET_RETURN_IF_ERROR(Check(composition));
  Reduced reduced{.composition = {.relation = composition.relation}};
  double gaussian_mu_squared = 0;
  const double factor = composition.relation == Relation::kReplaceOne ? 2 : 1;
  for (NoisedRounds rounds : composition.rounds) {
    if (rounds.count == 0 || (rounds.sampling != SamplingKind::kNone && !(rounds.rate > 0))) continue;
    if (!(rounds.multiplier > 0)) {
      reduced.no_noise = true;
      continue;
    }
    if (!rounds.sampled()) rounds.sampling = SamplingKind::kNone;
    if (rounds.noise == NoiseLaw::kDiscreteGaussian && !HasExactLaw(rounds)) {
      RIVULET_ASSIGN_OR_RETURN(const ContinuousEquivalent continuous,
                               ContinuousEquivalentOf(rounds, composition.total_rounds()));
      rounds.noise = NoiseLaw::kGaussian;
      rounds.multiplier = continuous.multiplier;
      reduced.log_ratio += static_cast<double>(rounds.count) * continuous.log_ratio;
      reduced.exact = false;
    }
    if (rounds.noise == NoiseLaw::kLaplace || rounds.noise == NoiseLaw::kDiscreteLaplace) {
      reduced.exact = reduced.exact && rounds.dimension == 1 && rounds.sensitivity == std::floor(rounds.sensitivity);
    }
    if (rounds.sampling == SamplingKind::kFixed) reduced.exact = false;
    if (rounds.noise == NoiseLaw::kGaussian && rounds.sampling == SamplingKind::kNone) {
      // All of these are one.
      const double mu = factor / rounds.multiplier;
      gaussian_mu_squared += static_cast<double>(rounds.count) * mu * mu;
    } else {
      reduced.composition.rounds.push_back(rounds);
    }
  }
  if (gaussian_mu_squared > 0) {
    reduced.composition.rounds.push_back({.multiplier = factor / std::sqrt(gaussian_mu_squared)});
  }
  return reduced;
}

bool IsOneGaussian(const Composition& composition) {
  return composition.rounds.size() == 1 && composition.rounds[0].noise == NoiseLaw::kGaussian &&
         composition.rounds[0].sampling == SamplingKind::kNone;
}

Bracket GaussianBracket(double mu, const Question& question) {
  const double value =
      question.epsilon_wanted ? GaussianEpsilon(mu, question.given) : GaussianDelta(mu, question.given);
  return {.upper = value, .lower = value};
}

// Both directions of neighbours, each composed of its own pairs.
Bracket PairBracket(const Composition& composition, const Question& question) {
  std::vector<ComposedPair> directions[2];
  bool alike = true;
  for (const NoisedRounds& rounds : composition.rounds) {
    std::vector<LossPair> pairs = LossPairsOf(rounds, composition.relation);
    alike = alike && pairs.size() == 1;
    directions[1].push_back({pairs.back(), rounds.count});
    directions[0].push_back({std::move(pairs.front()), rounds.count});
  }
  Bracket worst;
  for (int direction = 0; direction < (alike ? 1 : 2); ++direction) {
    const LossComposition composed(std::move(directions[direction]));
    const Bracket one = question.epsilon_wanted ? composed.Epsilon(question.given) : composed.Delta(question.given);
    worst.upper = std::max(worst.upper, one.upper);
    worst.lower = std::max(worst.lower, one.lower);
  }
  return worst;
}

Spend NoNoise(const Question& question) {
  const double value = question.epsilon_wanted ? HUGE_VAL : 1;
  return {.value = value, .lower = value};
}

// What is asked of laws within a factor e^ratio of those of the question, and the answer's bound from theirs: delta is
// at most e^ratio times their delta at epsilon - 2 ratio. nullopt: nothing bounds it.
std::optional<Question> Within(double ratio, Question question) {
  if (question.epsilon_wanted) {
    question.given *= std::exp(-ratio);
    return question.given > 0 ? std::optional(question) : std::nullopt;
  }
  question.given -= 2 * ratio;
  return question.given >= 0 ? std::optional(question) : std::nullopt;
}
double Outside(double ratio, const Question& question, double value) {
  return question.epsilon_wanted ? value + 2 * ratio : std::min(1.0, value * std::exp(ratio));
}

Spend Unbounded(const Question& question) { return {.value = question.epsilon_wanted ? HUGE_VAL : 1}; }

StatusOr<Spend> AskPld(const Composition& composition, const Question& question) {
  RIVULET_ASSIGN_OR_RETURN(const Reduced reduced, Reduce(composition));
  if (reduced.no_noise) return NoNoise(question);
  if (reduced.composition.rounds.empty()) return Spend{.lower = 0};
  const std::optional<Question> inner = Within(reduced.log_ratio, question);
  if (!inner) return Unbounded(question);
  const double mu = (composition.relation == Relation::kReplaceOne ? 2 : 1) / reduced.composition.rounds[0].multiplier;
  const Bracket bracket =
      IsOneGaussian(reduced.composition) ? GaussianBracket(mu, *inner) : PairBracket(reduced.composition, *inner);
  Spend spend{.value = Outside(reduced.log_ratio, question, bracket.upper)};
  if (reduced.exact) spend.lower = bracket.lower;
  return spend;
}

StatusOr<Spend> AskRdp(const Composition& composition, const Question& question) {
  const std::vector<double> orders = DefaultOrders();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<double> curve, RenyiCurve(composition, orders));
  const RenyiBound bound =
      question.epsilon_wanted ? RenyiEpsilon(orders, curve, question.given) : RenyiDelta(orders, curve, question.given);
  return Spend{.value = bound.value, .order = bound.order > 0 ? std::optional(bound.order) : std::nullopt};
}

StatusOr<Spend> AskZcdp(const Composition& composition, const Question& question) {
  RIVULET_ASSIGN_OR_RETURN(const double rho, ConcentratedRho(composition));
  return Spend{.value = question.epsilon_wanted ? EpsilonOfRho(rho, question.given) : DeltaOfRho(rho, question.given)};
}

StatusOr<Spend> AskGdp(const Composition& composition, const Question& question) {
  RIVULET_ASSIGN_OR_RETURN(const Reduced reduced, Reduce(composition));
  if (reduced.no_noise) return NoNoise(question);
  double mu_squared = 0;
  bool is_bound = true;
  for (const NoisedRounds& rounds : reduced.composition.rounds) {
    if (rounds.noise != NoiseLaw::kGaussian) {
      return InvalidArgument("gdp knows Gaussian noise; use pld or rdp for {}", NameOf(composition.rounds[0].noise));
    }
    if (rounds.sampling == SamplingKind::kFixed) {
      return InvalidArgument("gdp has no estimate for a cohort of fixed size; use pld or rdp");
    }
    if (rounds.sampling == SamplingKind::kPoisson) {
      const double mu = CentralLimitMu(rounds.multiplier, rounds.rate, static_cast<double>(rounds.count));
      mu_squared += mu * mu;
      is_bound = false;
    } else {
      const double mu = (composition.relation == Relation::kReplaceOne ? 2 : 1) / rounds.multiplier;
      mu_squared += mu * mu;
    }
  }
  const std::optional<Question> inner = Within(reduced.log_ratio, question);
  if (!inner) return Unbounded(question);
  const Bracket bracket = GaussianBracket(std::sqrt(mu_squared), *inner);
  Spend spend{.value = Outside(reduced.log_ratio, question, bracket.upper), .is_bound = is_bound};
  if (is_bound && reduced.exact) spend.lower = bracket.lower;
  return spend;
}

StatusOr<Spend> Ask(const Composition& composition, const Question& question, Accountant accountant) {
  switch (accountant) {
    case Accountant::kPld:
      return AskPld(composition, question);
    case Accountant::kRdp:
      return AskRdp(composition, question);
    case Accountant::kZcdp:
      return AskZcdp(composition, question);
    case Accountant::kGdp:
      return AskGdp(composition, question);
  }
  return Internal("no such accountant");
}

}  // namespace

std::string_view NameOf(Accountant accountant) {
  switch (accountant) {
    case Accountant::kPld:
      return "pld";
    case Accountant::kRdp:
      return "rdp";
    case Accountant::kZcdp:
      return "zcdp";
    case Accountant::kGdp:
      return "gdp";
  }
  return "";
}

StatusOr<Accountant> AccountantNamed(std::string_view name) {
  for (const Accountant one : {Accountant::kPld, Accountant::kRdp, Accountant::kZcdp, Accountant::kGdp}) {
    if (NameOf(one) == name) return one;
  }
  return InvalidArgument("'{}' is no accountant; there are pld, rdp, zcdp and gdp", name);
}

StatusOr<Spend> EpsilonOf(const Composition& composition, double delta, Accountant accountant) {
  if (!(delta > 0 && delta < 1)) return InvalidArgument("delta is {}; it must be above 0 and below 1", delta);
  return Ask(composition, {.epsilon_wanted = true, .given = delta}, accountant);
}

StatusOr<Spend> DeltaOf(const Composition& composition, double epsilon, Accountant accountant) {
  if (!(epsilon >= 0) || std::isinf(epsilon)) {
    return InvalidArgument("epsilon is {}; it must be a finite number of at least 0", epsilon);
  }
  return Ask(composition, {.epsilon_wanted = false, .given = epsilon}, accountant);
}

}  // namespace rivulet::privacy
