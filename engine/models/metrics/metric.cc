#include "engine/models/metrics/metric.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "engine/base/join.h"
#include "engine/base/named_registry.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

NamedRegistry<MetricKind>& Metrics() {
  static auto* const metrics = new NamedRegistry<MetricKind>("metrics");
  return *metrics;
}

MetricFunction FunctionFor(const MetricKind& metric, TargetKind kind) {
  switch (kind) {
    case TargetKind::kClass:
      return metric.of_class;
    case TargetKind::kLabels:
      return metric.of_labels;
    case TargetKind::kNumbers:
      return metric.of_numbers;
  }
  return nullptr;
}

std::vector<std::string> UsualMetrics(TargetKind kind) {
  switch (kind) {
    case TargetKind::kClass:
      return {"accuracy"};
    case TargetKind::kLabels:
      return {"accuracy", "exact_match"};
    case TargetKind::kNumbers:
      return {"mse", "mae"};
  }
  return {};
}

// "top" and 5 of "top_5"; no number of "accuracy".
std::pair<const MetricKind*, std::optional<int64_t>> Named(std::string_view name) {
  if (const MetricKind* const found = Metrics().Find(name); found != nullptr && !found->numbered)
    return {found, std::nullopt};
  const size_t line = name.rfind('_');
  if (line == std::string_view::npos) return {};
  const MetricKind* const found = Metrics().Find(name.substr(0, line));
  if (found == nullptr || !found->numbered) return {};
  int64_t number = 0;
  const std::string_view digits = name.substr(line + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 1) return {};
  return {found, number};
}

std::vector<std::string> NamesFor(TargetKind kind) {
  std::vector<std::string> names;
  for (const auto& [name, metric] : Metrics().kinds()) {
    if (FunctionFor(metric, kind) != nullptr) names.push_back(metric.numbered ? name + "_5" : name);
  }
  return names;
}

}  // namespace

StatusOr<std::vector<std::pair<std::string, std::string>>> AddMetrics(const Scope& scope, TargetKind kind,
                                                                      const ScoredTargets& targets,
                                                                      std::span<const std::string> names) {
  const std::vector<std::string> usual = UsualMetrics(kind);
  if (names.empty()) names = usual;
  std::vector<std::pair<std::string, std::string>> metrics;
  std::set<std::string> taken;
  for (const std::string& name : names) {
    const auto [metric, number] = Named(name);
    const MetricFunction function = metric == nullptr ? nullptr : FunctionFor(*metric, kind);
    if (function == nullptr) {
      const std::vector<std::string> known = NamesFor(kind);
      return NotFound("there is no metric '{}' for the target \"{}\".{} Metrics for it are {}", name, NameOf(kind),
                      DidYouMean(name, known), Join(known, ", "));
    }
    if (!taken.insert(name).second) return InvalidArgument("the metric '{}' is asked for twice", name);
    if (targets.counted && !metric->weighted)
      return InvalidArgument(
          "the metric '{}' is of all labels, and some count for nothing here; choose \"accuracy\", \"exact_match\" or "
          "\"perplexity\"",
          name);
    const Output made = function(scope, targets, {name, number.value_or(0)});
    RIVULET_RETURN_IF_ERROR(Annotate(scope.status(), fmt::format("the metric '{}'", name)));
    metrics.emplace_back(name, made.name());
  }
  return metrics;
}

FinishFunction FinishOf(std::string_view name) {
  const MetricKind* const metric = Named(name).first;
  return metric == nullptr ? nullptr : metric->finish;
}

void ForEachMetric(std::function<void(const MetricKind&)> visit) { Metrics().ForEach(std::move(visit)); }

MetricRegistration::MetricRegistration(MetricKind kind) { Metrics().Add(std::move(kind)); }

Output AddRate(const Scope& scope, Output truths, std::string_view ones, std::string_view rate) {
  const Output counted = scope.Op("Cast", {truths}, {{"DstT", DType::kFloat32}}, ones);
  return MeanOf(scope, counted, rate);
}

Output PredictionOf(const Scope& scope, const ScoredTargets& targets) {
  if (Node* const made = scope.graph().Find(scope.prefix() + "prediction"); made != nullptr && made->type() == "ArgMax")
    return made->output();
  const Output axis = scope.Const(Tensor::Scalar<int32_t>(1), "prediction/axis");
  return scope.Op("ArgMax", {targets.scores, axis}, {{"output_type", DType::kInt64}}, "prediction");
}

Output DecisionOf(const Scope& scope, const ScoredTargets& targets) {
  if (Node* const made = scope.graph().Find(scope.prefix() + "prediction"); made != nullptr && made->type() == "Cast")
    return made->output();
  const Output yes = scope.Op("Greater", {targets.scores, scope.Const(0.0f, "decision/bound")}, {}, "decision");
  return scope.Op("Cast", {yes}, {{"DstT", DType::kInt64}}, "prediction");
}

Output SumOfRows(const Scope& scope, Output values) {
  return scope.Op("Sum", {values, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
}

}  // namespace rivulet
