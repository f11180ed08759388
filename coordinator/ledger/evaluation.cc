#include "coordinator/ledger/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/models/metrics/metric.h"
#include "federated/evaluation/count_scalar.h"

namespace rivulet {
namespace {

constexpr std::string_view kRight = "/right", kTotal = "/total", kExamplesScalar = "examples";

StatusOr<double> Declared(const Scalars& declared, const std::string& name) {
  const auto found = declared.find(name);
  if (found == declared.end()) return InvalidArgument("it lacks '{}', which the plan requires", name);
  if (!std::isfinite(found->second)) return InvalidArgument("its '{}' is {}, which is not finite", name, found->second);
  return found->second;
}

bool IsCount(double value) { return value >= 0 && value <= 0x1p53 && value == std::floor(value); }

// The value of rank ceil(percent / 100 · n) among n sorted values, counted from 1.
double Percentile(const std::vector<double>& sorted, int64_t percent) {
  const int64_t n = std::ssize(sorted);
  return sorted[static_cast<size_t>(std::max<int64_t>((percent * n + 99) / 100, 1) - 1)];
}

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

StatusOr<Measures> MeasuresOf(const AggregationSpec& spec, const Scalars& declared) {
  Measures measures;
  std::map<std::string, std::vector<double>> counts;  // by "evaluate/auc"
  for (const ScalarSpec& scalar : spec.scalars) {
    RIVULET_ASSIGN_OR_RETURN(const double value, Declared(declared, scalar.name));
    const std::string_view name = scalar.name;
    if (name == kExamplesScalar || name.ends_with(kTotal)) continue;
    if (const size_t at = name.rfind(kCountScalar); at != std::string_view::npos) {
      if (!IsCount(value)) return InvalidArgument("it says that '{}' is {}, which is no count", name, value);
      counts[std::string(name.substr(0, at))].push_back(value);
      continue;
    }
    if (!name.ends_with(kRight)) {
      measures[scalar.name] = {value};
      continue;
    }
    const std::string rate(name.substr(0, name.size() - kRight.size()));
    RIVULET_ASSIGN_OR_RETURN(const double total, Declared(declared, rate + std::string(kTotal)));
    if (!IsCount(value) || !IsCount(total) || value > total)
      return InvalidArgument("it reports {} of {} of '{}' as right, which is impossible", value, total, rate);
    if (total > 0) measures[rate] = Measure::Rate(static_cast<int64_t>(value), static_cast<int64_t>(total));
  }
  for (const auto& [metric, sums] : counts) {
    const FinishFunction finish = FinishOf(metric.substr(metric.rfind('/') + 1));
    if (finish == nullptr)
      return InvalidArgument("the plan counts '{}', and this program knows no such metric", metric);
    for (const auto& [suffix, number] : finish(sums)) {
      if (!std::isfinite(number)) return InvalidArgument("its counts of '{}' cannot be", metric);
      measures[metric + suffix] = {number};
    }
  }
  return measures;
}

StatusOr<Measures> MeasuresOfSums(const AggregationSpec& spec, const Scalars& sums) {
  RIVULET_ASSIGN_OR_RETURN(const double examples, Declared(sums, std::string(kExamplesScalar)));
  if (examples < 1) return FailedPrecondition("no client had an example to measure with");
  Scalars declared = sums;
  for (const ScalarSpec& scalar : spec.scalars) {
    if (scalar.weigh == kExamplesScalar) declared[scalar.name] /= examples;
  }
  return MeasuresOf(spec, declared);
}

// Sorted first, because sums of doubles depend on their order.
Measures Distribution(std::span<const Measures* const> clients) {
  std::map<std::string, std::vector<double>> values;
  for (const Measures* client : clients) {
    for (const auto& [name, measure] : *client) {
      if (name != kPersonalTrained) values[name].push_back(measure.value);
    }
  }
  Measures spread;
  for (auto& [name, sorted] : values) {
    std::sort(sorted.begin(), sorted.end());
    spread[name + "/mean"] = {MeanOf(sorted)};
    for (const int64_t percent : {10, 50, 90})
      spread[fmt::format("{}/p{}", name, percent)] = {Percentile(sorted, percent)};
    const size_t tenth = (sorted.size() + 9) / 10;
    const std::span<const double> all = sorted;
    spread[name + "/worst_decile"] = {MeanOf(LowerIsBetter(name) ? all.last(tenth) : all.first(tenth))};
  }
  return spread;
}

}  // namespace rivulet
