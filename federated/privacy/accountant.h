// Privacy accountants: epsilon, delta, noise or rounds of a composition of noised rounds. Pure functions; each call is
// independent of all others.
#pragma once

#include <optional>
#include <string_view>

#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

enum class Accountant {
  kPld,   // the distribution of the privacy loss, by Fourier transforms: a tight bound, with a lower bound beside it
  kRdp,   // Renyi divergences: a bound
  kZcdp,  // zero-concentrated differential privacy: a bound, without sampling
  kGdp,   // Gaussian differential privacy: exact without sampling; with Poisson sampling the central limit, an estimate
};
std::string_view NameOf(Accountant accountant);  // "pld"
StatusOr<Accountant> AccountantNamed(std::string_view name);

struct Spend {
  double value = 0;             // epsilon or delta: an upper bound unless is_bound is false
  std::optional<double> lower;  // what it is at least, where the accountant knows (kPld; kGdp without sampling)
  bool is_bound = true;
  std::optional<double> order;  // kRdp: the order that gave it
};

// The epsilon for a delta in (0, 1), and the delta for an epsilon >= 0. Epsilon is infinite where nothing bounds it (no
// noise). INVALID_ARGUMENT: as Check(composition), numbers out of range, and what the accountant cannot do.
StatusOr<Spend> EpsilonOf(const Composition& composition, double delta, Accountant accountant = Accountant::kPld);
StatusOr<Spend> DeltaOf(const Composition& composition, double epsilon, Accountant accountant = Accountant::kPld);

// The least factor for all multipliers of the composition, within a relative 1e-6 and from above, with which its
// epsilon at `delta` is at most `epsilon` > 0. With one kind of round of multiplier 1 the factor is the multiplier.
// OUT_OF_RANGE: none up to 1e6 is enough.
StatusOr<double> LeastNoise(const Composition& composition, double epsilon, double delta,
                            Accountant accountant = Accountant::kPld);

// The most rounds of the composition's last kind, beside all the others, with an epsilon of at most `epsilon` at
// `delta`; 0 where not one fits. OUT_OF_RANGE: 2^40 rounds stay below it, or the others alone exceed it.
StatusOr<int64_t> MostRounds(const Composition& composition, double epsilon, double delta,
                             Accountant accountant = Accountant::kPld);

}  // namespace rivulet::privacy
