#include "federated/privacy/rounds.h"

#include <cmath>

namespace rivulet::privacy {
namespace {

constexpr int64_t kMostRounds = int64_t{1} << 40;

Status CheckRounds(const NoisedRounds& rounds, Relation relation) {
  if (!(rounds.multiplier >= 0) || std::isinf(rounds.multiplier)) {
    return InvalidArgument("a noise multiplier is {}; it must be a finite number of at least 0", rounds.multiplier);
  }
  if (rounds.count < 0 || rounds.count > kMostRounds) {
    return InvalidArgument("the number of rounds is {}; it must be from 0 to {}", rounds.count, kMostRounds);
  }
  if (!(rounds.rate >= 0 && rounds.rate <= 1)) {
    return InvalidArgument("the sampling rate is {}; it must be from 0 to 1", rounds.rate);
  }
  if (rounds.sampling == SamplingKind::kPoisson && relation != Relation::kAddRemove) {
    return InvalidArgument("Poisson sampling is accounted under add-remove; with replace-one use a fixed cohort");
  }
  if (rounds.sampling == SamplingKind::kFixed && relation != Relation::kReplaceOne) {
    return InvalidArgument(
        "a cohort of fixed size is accounted under replace-one, because its size is public; use that relation, or "
        "Poisson sampling");
  }
  if (rounds.sampling == SamplingKind::kFixed && rounds.noise != NoiseLaw::kGaussian &&
      rounds.noise != NoiseLaw::kDiscreteGaussian) {
    return InvalidArgument("sampling of a fixed cohort is accounted with Gaussian noise only, not with {}",
                           NameOf(rounds.noise));
  }
  if (rounds.dimension < 1) return InvalidArgument("the dimension is {}; it must be at least 1", rounds.dimension);
  if (!rounds.discrete()) return absl::OkStatus();
  if (!(rounds.sensitivity > 0) || std::isinf(rounds.sensitivity)) {
    return InvalidArgument("the sensitivity is {} units; discrete noise needs a finite one above 0",
                           rounds.sensitivity);
  }
  if (rounds.contributors < 1) {
    return InvalidArgument("noise comes from {} contributors; there must be at least 1", rounds.contributors);
  }
  if (rounds.contributors > 1 && rounds.noise != NoiseLaw::kDiscreteGaussian) {
    return InvalidArgument("noise of several contributors is accounted for the discrete Gaussian only, not for {}",
                           NameOf(rounds.noise));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Composition::total_rounds() const {
  int64_t total = 0;
  for (const NoisedRounds& one : rounds) total += one.count;
  return total;
}

Composition Composition::Scaled(double factor) const {
  Composition scaled = *this;
  for (NoisedRounds& one : scaled.rounds) one.multiplier *= factor;
  return scaled;
}

Status Check(const Composition& composition) {
  for (const NoisedRounds& rounds : composition.rounds) {
    RIVULET_RETURN_IF_ERROR(CheckRounds(rounds, composition.relation));
  }
  if (composition.total_rounds() > kMostRounds) {
    return InvalidArgument("the rounds add up to {}; accountants take up to {}", composition.total_rounds(),
                           kMostRounds);
  }
  return absl::OkStatus();
}

std::string_view NameOf(NoiseLaw noise) {
  switch (noise) {
    case NoiseLaw::kGaussian:
      return "gaussian";
    case NoiseLaw::kLaplace:
      return "laplace";
    case NoiseLaw::kDiscreteGaussian:
      return "discrete-gaussian";
    case NoiseLaw::kDiscreteLaplace:
      return "discrete-laplace";
  }
  return "";
}

std::string_view NameOf(Relation relation) { return relation == Relation::kAddRemove ? "add-remove" : "replace-one"; }

StatusOr<NoiseLaw> NoiseLawNamed(std::string_view name) {
  for (const NoiseLaw noise :
       {NoiseLaw::kGaussian, NoiseLaw::kLaplace, NoiseLaw::kDiscreteGaussian, NoiseLaw::kDiscreteLaplace}) {
    if (NameOf(noise) == name) return noise;
  }
  return InvalidArgument("'{}' is no noise; there are gaussian, laplace, discrete-gaussian and discrete-laplace", name);
}

StatusOr<Relation> RelationNamed(std::string_view name) {
  for (const Relation relation : {Relation::kAddRemove, Relation::kReplaceOne}) {
    if (NameOf(relation) == name) return relation;
  }
  return InvalidArgument("'{}' is no neighbouring relation; there are add-remove and replace-one", name);
}

}  // namespace rivulet::privacy
