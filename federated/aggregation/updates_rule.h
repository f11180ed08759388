// A rule that must see every update of a version at once: a median, a trimmed mean. Updates lie on disk until the end,
// and then a block of coordinates of all of them is looked at at a time: memory is bounded, whatever the cohort.
//
//   class Median : public UpdatesRule { … };
//   RIVULET_UPDATES_RULE("median", CreateMedian);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "federated/aggregation/aggregation.h"

namespace rivulet {

// Immutable.
class UpdatesRule {
 public:
  virtual ~UpdatesRule() = default;
  // What some coordinates come to: out[i] of updates[u][i], for every update u, of which there is one at least. In the
  // order of their tasks' names; weights[u] in units of 2^-(weight_fraction_bits + staleness_bits). All are finite.
  virtual void Reduce(std::span<const std::span<const float>> updates, std::span<const int64_t> weights,
                      std::span<float> out) const = 0;
};

// Whether a rule of that name is one of these; then a partial is its updates, not sums.
bool IsUpdatesRule(std::string_view rule);

using UpdatesRuleFactory = std::unique_ptr<const UpdatesRule> (*)();
struct UpdatesRuleRegistration {
  UpdatesRuleRegistration(const char* rule, UpdatesRuleFactory factory);
};
#define RIVULET_UPDATES_RULE(rule, factory)                                                               \
  [[maybe_unused]] static const ::rivulet::UpdatesRuleRegistration RIVULET_CONCAT_(rivulet_updates_rule_, \
                                                                                   __COUNTER__)(rule, factory)

}  // namespace rivulet
