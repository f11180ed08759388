// Interface that measures a committed model. The coordinator calls it; the code that builds a run's parts implements
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

// A number, and of a rate what it is made of: value = right / total, so that 0.228 is 0.228.
struct Measure {
  double value = 0;
  std::optional<int64_t> right, total;
  static Measure Rate(int64_t right, int64_t total) {
    return {static_cast<double>(right) / static_cast<double>(total), right, total};
  }
  bool operator==(const Measure&) const = default;
};

// By what versions are compared, the first that is there: a validation set is there for that, and so that the test set
// is not used for it.
inline constexpr std::string_view kJudgingMetrics[] = {"validation/accuracy", "validation/loss", "test/accuracy",
                                                       "test/loss"};

// Whether less of a metric is better, as of losses and errors, and of how they are spread over clients
// (coordinator/ledger/evaluation.h).
inline bool LowerIsBetter(std::string_view metric) {
  for (const std::string_view spread : {"/mean", "/p10", "/p50", "/p90", "/worst_decile"}) {
    if (metric.ends_with(spread)) metric.remove_suffix(spread.size());
  }
  return metric.ends_with("loss") || metric.ends_with("/mse") || metric.ends_with("/mae") ||
         metric.ends_with("/perplexity") || metric.ends_with("_bound");
}

// Central evaluation of a committed model: measures by name, such as "test/accuracy". Deterministic for any number of
// threads.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) = 0;
};

}  // namespace rivulet
