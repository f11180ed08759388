// Metrics of an evaluation besides the loss, by name. Each is one registered file, with a function for each kind of
// target that it supports. A metric is one of three:
//
//   a mean    a scalar, the mean over the batch; for the whole set, the mean over its examples
//   a rate    a scalar, the Mean of a Cast of booleans, which are counted (federated/plan/rates.h)
//   counts    a vector of whole numbers, summed over batches and clients; `finish` computes the results from the
//   sums
//
//   RIVULET_METRIC(accuracy_registration, {.name = "accuracy", .doc = "…", .of_class = Accuracy});
//
// Sums of counts are exact, so a metric does not depend on batches or on the division into clients. Reading the
// registry is thread-safe once main has begun.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/scope.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {

// The most counts of a metric; each client's report of a version contains all of them.
inline constexpr int64_t kMostCounts = 4096;

// A request for a metric, as a node `name`, or as an output. `number` is for numbered metrics, such as k of "top_k".
struct MetricRequest {
  std::string name;
  int64_t number = 0;
};
using MetricFunction = Output (*)(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request);
// Results by suffix of the metric's name: "" is the metric itself, "_bound" its largest possible error. Empty if the
// counts give no result, for example without positive examples.
using FinishedCounts = std::map<std::string, double>;
using FinishFunction = FinishedCounts (*)(std::span<const double> sums);

struct MetricKind {
  std::string name;
  std::string doc;        // completes "`name`: …" in a reference
  bool numbered = false;  // requested as "name_5"
  bool weighted = false;  // of_class leaves out rows that do not count (ScoredTargets::counted)
  MetricFunction of_class = nullptr, of_labels = nullptr, of_numbers = nullptr;  // null: kind not supported
  FinishFunction finish = nullptr;                                               // for counts
};

// Adds the metrics of these names to the graph. Without names it adds the usual ones. Classes have "accuracy". Labels
// have "accuracy", the share of correct decisions (a score above 0 means yes), and "exact_match", the share of
// completely correct examples. Numbers have "mse" and "mae". Returns (name, tensor). NOT_FOUND lists the metrics for
// targets of this kind. INVALID_ARGUMENT: a duplicate name, an invalid number, an all-rows metric if some rows do not
// count. Other errors are the scope's.
StatusOr<std::vector<std::pair<std::string, std::string>>> AddMetrics(const Scope& scope, TargetKind kind,
                                                                      const ScoredTargets& targets,
                                                                      std::span<const std::string> names = {});

// The finish function of a metric with counts. Null: the metric has no counts, or is unknown.
FinishFunction FinishOf(std::string_view name);
// Calls `visit` for every metric, including metrics that are registered later.
void ForEachMetric(std::function<void(const MetricKind&)> visit);

struct MetricRegistration {
  explicit MetricRegistration(MetricKind kind);
};
#define RIVULET_METRIC(variable, ...) \
  [[maybe_unused]] static const ::rivulet::MetricRegistration variable(::rivulet::MetricKind __VA_ARGS__)

// Adds the mean of booleans as the node `rate`, in the form of a rate, and the node `ones` with their ones and zeros.
Output AddRate(const Scope& scope, Output truths, std::string_view ones, std::string_view rate);
// Return the class of the highest score, and the predicted labels (int64). The nodes are "prediction", created once.
Output PredictionOf(const Scope& scope, const ScoredTargets& targets);
Output DecisionOf(const Scope& scope, const ScoredTargets& targets);
// Sums over the rows.
Output SumOfRows(const Scope& scope, Output values);

}  // namespace rivulet
