// Early end of a run by its measures (run.stop, run.patience). A pure function of the versions' measures in order: a
// resumed run replays the earlier ones and ends at the same version.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "federated/evaluation/evaluator.h"
#include "federated/scenario/scenario.h"
#include "federated/scenario/stop_condition.h"

namespace rivulet {

class StopRule {
 public:
  // Errors as StopCondition::Parse.
  static StatusOr<StopRule> Create(const RunConfig& config);

  // Call it for each measured version, ascending. Gives the reason why the run ends with it; "": the run continues.
  // FAILED_PRECONDITION: versions lack the metric of run.stop, or any metric that run.patience can use.
  StatusOr<std::string> After(const std::map<std::string, Measure>& central);

 private:
  StatusOr<std::string> Reached(const std::map<std::string, Measure>& central) const;
  StatusOr<std::string> NoBetter(const std::map<std::string, Measure>& central);

  std::optional<StopCondition> condition_;
  std::string text_;      // the condition's original text
  int64_t patience_ = 0;  // in measured versions; 0: none
  int64_t no_better_ = 0;
  std::optional<double> best_;  // as WorthOf
};

}  // namespace rivulet
