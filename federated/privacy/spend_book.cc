#include "federated/privacy/spend_book.h"

#include <algorithm>
#include <utility>

namespace rivulet::privacy {
namespace {

bool AreEqual(const NoisedRounds& a, const NoisedRounds& b) {
  return a.noise == b.noise && a.multiplier == b.multiplier && a.sampling == b.sampling && a.rate == b.rate &&
         a.sensitivity == b.sensitivity && a.dimension == b.dimension && a.contributors == b.contributors;
}

Composition With(Composition composition, const NoisedRounds& attempt) {
  if (!composition.rounds.empty() && AreEqual(composition.rounds.back(), attempt)) {
    composition.rounds.back().count += attempt.count;
  } else {
    composition.rounds.push_back(attempt);
  }
  return composition;
}

}  // namespace

Status SpendBook::Charge(const NoisedRounds& attempt) {
  Composition with = With(spent_, attempt);
  RIVULET_RETURN_IF_ERROR(Check(with));
  spent_ = std::move(with);
  return absl::OkStatus();
}

StatusOr<SpendBook::Epsilons> SpendBook::SpentWith(const NoisedRounds& attempt) const {
  return EpsilonsOf(With(spent_, attempt));
}

StatusOr<SpendBook::Epsilons> SpendBook::EpsilonsOf(const Composition& composition) const {
  Composition known = composition;
  for (NoisedRounds& rounds : known.rounds) {
    rounds.sampling = SamplingKind::kNone;
    rounds.rate = 1;
  }
  RIVULET_ASSIGN_OR_RETURN(const Spend viewers, EpsilonOf(composition, delta_));
  if (std::ranges::none_of(composition.rounds, &NoisedRounds::sampled)) return Epsilons{viewers.value, viewers.value};
  RIVULET_ASSIGN_OR_RETURN(const Spend participants, EpsilonOf(known, delta_));
  return Epsilons{viewers.value, participants.value};
}

}  // namespace rivulet::privacy
