// Rules over whole updates: Krum's, a geometric median, clipping. They need only the distances between updates, and
// their result is a linear combination of updates. So the updates are read twice, a block of coordinates at a time: for
// the squared distances between any two, and for the weighted sum. Between the two passes a rule keeps one number per
// pair of updates.
//
//   class Krum final : public WholeUpdatesRule { Counts Count(const SquaredDistances& distances) const override; };
//   RIVULET_UPDATES_RULE("krum", {Float("byzantine", …)}, CreateKrum);
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "federated/aggregation/updates_rule.h"

namespace rivulet {

// Squared distances between updates, in the order of their tasks' names, and from each update to zero: at(u,
// updates()).
class SquaredDistances {
 public:
  explicit SquaredDistances(size_t updates) : updates_(updates), squares_((updates + 1) * (updates + 1)) {}

  // Adds further coordinates of all updates. Sums are in double, in an order that does not depend on the machine.
  void Add(std::span<const std::span<const float>> updates);

  size_t updates() const { return updates_; }
  double at(size_t a, size_t b) const { return squares_[a * (updates_ + 1) + b]; }
  // The distances (not squared) of all updates to Σ_u weights[u] · update u. With weights that sum to 1, including
  // zero's, ‖x − Σ w_u x_u‖² = Σ_u w_u ‖x − x_u‖² − ½ Σ_u Σ_v w_u w_v ‖x_u − x_v‖².
  std::vector<double> To(std::span<const double> weights) const;

 private:
  const size_t updates_;
  std::vector<double> squares_;  // a row per update, and one for zero
};

class WholeUpdatesRule : public UpdatesRule {
 public:
  bool looks_at_whole_updates() const final { return true; }
  Counts Count(const SquaredDistances& distances) const override = 0;
  // Adds multiples of 1 / unit, as a uniform mean does. If all counts are 1, it equals the uniform mean to the bit.
  void Reduce(const Columns& columns, std::span<float> out) const final;
};

}  // namespace rivulet
