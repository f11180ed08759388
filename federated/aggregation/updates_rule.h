// A rule that needs all updates of a version at once, such as a median or a trimmed mean. Updates stay on disk until
// the end. The rule then reads one block of coordinates of all of them at a time, so memory is bounded for any cohort.
//
//   class Median : public UpdatesRule { … };
//   RIVULET_UPDATES_RULE("median", {}, CreateMedian);
//
// whole_updates_rule.h is the base of rules over whole updates, such as Krum's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet {

class SquaredDistances;
class UpdateSpool;

// Immutable.
class UpdatesRule {
 public:
  virtual ~UpdatesRule() = default;
  // Factors of the updates in a linear combination: Σ_u of[u] · updates[u] / divisor. 0 ≤ of[u], and their sum is at
  // most the number of updates.
  struct Counts {
    std::vector<double> of;
    double divisor = 1;
  };
  // Some coordinates of all updates (at least one update), in the order of their tasks' names.
  struct Columns {
    std::span<const std::span<const float>> updates;  // all finite
    std::span<const int64_t> weights;                 // in units of 2^-(weight_fraction_bits + staleness_bits)
    // A rule that adds values must add multiples of 1 / unit, as a mean with weights of 1 does: then the order does not
    // matter, and no sum overflows.
    double unit = 1;
    Counts counts = {};  // result of Count
  };
  // Returns true if the rule uses whole updates (whole_updates_rule.h); if so, Count is called once before any Reduce.
  virtual bool looks_at_whole_updates() const { return false; }
  virtual Counts Count(const SquaredDistances&) const { return {}; }
  // All updates of a part, as stored on disk.
  struct Stored {
    struct Update {
      std::string_view task;
      int64_t weight = 1;
      const UpdateSpool* spool = nullptr;  // float32 values, starting at `offset`
      int64_t offset = 0;
    };
    std::string_view part;
    int64_t base_version = 0;
    double weight_unit = 1;                 // the value of a weight of 1 in users' units
    std::span<const Update> updates;        // in the order of their tasks' names
    const AggregationBase* base = nullptr;  // set by Aggregation::StartFrom; null: not set
    double* dropped_share = nullptr;        // receives ServerInput::Part::dropped_share
  };
  // Returns true if the rule reads stored updates itself (external.h); if so, only ReduceStored is called, once.
  virtual bool reads_stored() const { return false; }
  virtual Status ReduceStored(const Stored&, std::span<float>) const { return absl::OkStatus(); }
  // Reduces each coordinate: out[i] is computed from updates[u][i] for all updates u.
  virtual void Reduce(const Columns& columns, std::span<float> out) const = 0;
};

// Returns true if a rule of this name is an UpdatesRule, so that its partial sums contain updates, not sums.
bool IsUpdatesRule(std::string_view rule);

// `settings`: AggregationSpec::rule_settings, checked and completed by the rule's table of numbers.
using UpdatesRuleFactory = std::unique_ptr<const UpdatesRule> (*)(const Settings& settings);
struct UpdatesRuleRegistration {
  UpdatesRuleRegistration(const char* rule, std::vector<Setting> settings, UpdatesRuleFactory factory);
};
#define RIVULET_UPDATES_RULE(rule, ...)                                                                   \
  [[maybe_unused]] static const ::rivulet::UpdatesRuleRegistration RIVULET_CONCAT_(rivulet_updates_rule_, \
                                                                                   __COUNTER__)(rule, __VA_ARGS__)

}  // namespace rivulet
