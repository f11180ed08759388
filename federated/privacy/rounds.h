// Descriptions of noised rounds for accountants: kind and scale of the noise, sampling and number of rounds. Plain
// values; nothing here draws or computes noise.
//
// "Sensitivity" is the largest change of the sum when one member (a client, or an example) is added or removed: the
// clip. A replaced member changes the sum by up to twice as much; accountants double the sensitivity under
// Relation::kReplaceOne, and callers never do.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet::privacy {

// Which inputs are neighbours.
enum class Relation {
  kAddRemove,   // one member more or fewer
  kReplaceOne,  // one member exchanged for another; the number of members is public
};

enum class NoiseLaw {
  kGaussian,
  kLaplace,           // on one number, or on a vector with an L1 sensitivity
  kDiscreteGaussian,  // on integers (Canonne, Kamath, Steinke 2020)
  kDiscreteLaplace,   // on one integer, or on integers with an L1 sensitivity
};

enum class SamplingKind {
  kNone,     // everybody takes part, or nothing about the sampling is secret
  kPoisson,  // each member independently with probability `rate`
  kFixed,    // a uniform set of fixed size: the share `rate` of all members
};

// `count` equal rounds.
struct NoisedRounds {
  NoiseLaw noise = NoiseLaw::kGaussian;
  // Standard deviation (Laplace: scale) of the noise on the sum, divided by the sensitivity. 0: no noise.
  double multiplier = 1;
  SamplingKind sampling = SamplingKind::kNone;
  double rate = 1;
  int64_t count = 1;

  // Discrete noise only. The sensitivity in units (the norm bound after rounding: L2, for Laplace L1), the number of
  // coordinates, and the number of honest contributors whose equal noise adds up to the multiplier (discrete Gaussian;
  // 1: the server adds it).
  double sensitivity = 1;
  int64_t dimension = 1;
  int64_t contributors = 1;

  bool discrete() const { return noise == NoiseLaw::kDiscreteGaussian || noise == NoiseLaw::kDiscreteLaplace; }
  bool sampled() const { return sampling != SamplingKind::kNone && rate < 1; }
};

// Rounds that one member may meet one after the other, each with knowledge of the earlier outcomes.
struct Composition {
  Relation relation = Relation::kAddRemove;
  std::vector<NoisedRounds> rounds;

  int64_t total_rounds() const;
  // The same rounds with every multiplier times `factor`.
  Composition Scaled(double factor) const;
};

// INVALID_ARGUMENT: a number out of its range, or a kind of sampling that is not defined under the relation (Poisson
// sampling needs kAddRemove, fixed cohorts need kReplaceOne).
Status Check(const Composition& composition);

std::string_view NameOf(NoiseLaw noise);     // "discrete-gaussian"
std::string_view NameOf(Relation relation);  // "add-remove"
StatusOr<NoiseLaw> NoiseLawNamed(std::string_view name);
StatusOr<Relation> RelationNamed(std::string_view name);

}  // namespace rivulet::privacy
