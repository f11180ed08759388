// Metrics of an evaluation beside the loss, by name: one registered file each, with a function for each kind of
// target that it takes. A metric is one of three:
//
//   a mean    a scalar, the mean over the batch: of the set the mean over its examples
//   a rate    a scalar, the Mean of a Cast of truths, which are counted (federated/plan/rates.h)
//   counts    a vector of whole numbers, which are added up over batches and clients; `finish` makes numbers of the
//   sums
//
//   RIVULET_METRIC(accuracy_registration, {.name = "accuracy", .doc = "…", .of_class = Accuracy});
//
// Sums of counts are exact, so a metric is the same for any batches and any division into clients. Reading the registry
// is thread-safe once main has begun.
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

// Counts of more numbers are refused: each client's report of a version has them all.
inline constexpr int64_t kMostCounts = 4096;

// The metric as a node `name`, or as its output. `number`: of a numbered metric, as k of "top_k".
struct MetricRequest {
  std::string name;
  int64_t number = 0;
};
using MetricFunction = Output (*)(const Scope& scope, const ScoredTargets& targets, const MetricRequest& request);
// Numbers by what is put behind the metric's name: "" is the metric itself, "_bound" how far it may be off. Nothing:
// the counts say nothing, as where no example is positive.
using FinishedCounts = std::map<std::string, double>;
using FinishFunction = FinishedCounts (*)(std::span<const double> sums);

struct MetricKind {
  std::string name;
  std::string doc;        // completes "`name`: …" in a reference
  bool numbered = false;  // it is asked for as "name_5"
  bool weighted = false;  // of_class leaves out the rows that do not count (ScoredTargets::counted)
  MetricFunction of_class = nullptr, of_labels = nullptr, of_numbers = nullptr;  // null: not for such targets
  FinishFunction finish = nullptr;                                               // of counts
};

// Adds the metrics of these names to the graph, of none those that are usual for the target: of classes "accuracy"; of
// labels "accuracy", the share of decisions (a score above 0 says yes) that are right, and "exact_match", the share of
// examples of which all are; of numbers "mse" and "mae". Returns (name, tensor). NOT_FOUND lists the metrics for
// targets of this kind; INVALID_ARGUMENT: a name twice, a number that is none, one of all rows where not all count.
// Other errors are the scope's.
StatusOr<std::vector<std::pair<std::string, std::string>>> AddMetrics(const Scope& scope, TargetKind kind,
                                                                      const ScoredTargets& targets,
                                                                      std::span<const std::string> names = {});

// Of a metric that counts, by its name; null: it does not, or is none of these.
FinishFunction FinishOf(std::string_view name);
// Calls `visit` for every metric, those that will be registered included.
void ForEachMetric(std::function<void(const MetricKind&)> visit);

struct MetricRegistration {
  explicit MetricRegistration(MetricKind kind);
};
#define RIVULET_METRIC(variable, ...) \
  [[maybe_unused]] static const ::rivulet::MetricRegistration variable(::rivulet::MetricKind __VA_ARGS__)

// The mean of truths as the node `rate`, in the form that is known as a rate; and its ones and zeros, of that name.
Output AddRate(const Scope& scope, Output truths, std::string_view ones, std::string_view rate);
// The class of the highest score, and whether each label is said (int64); the nodes "prediction", which are made once.
Output PredictionOf(const Scope& scope, const ScoredTargets& targets);
Output DecisionOf(const Scope& scope, const ScoredTargets& targets);
// Adds up rows.
Output SumOfRows(const Scope& scope, Output values);

}  // namespace rivulet
