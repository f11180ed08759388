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

// A metric's value; for a rate also its terms, value = right / total, so that no precision is lost.
struct Measure {
  double value = 0;
  std::optional<int64_t> right, total;
  static Measure Rate(int64_t right, int64_t total) {
    return {static_cast<double>(right) / static_cast<double>(total), right, total};
  }
  bool operator==(const Measure&) const = default;
};

// Metrics by which versions are compared; the first available one is used. Validation sets come first, so that the test
// set is not used for selection.
inline constexpr std::string_view kJudgingMetrics[] = {"validation/accuracy", "validation/loss", "test/accuracy",
                                                       "test/loss"};

// Returns true if lower values of a metric are better, as for losses and errors, and for statistics of their
// distribution over clients (coordinator/ledger/evaluation.h).
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
