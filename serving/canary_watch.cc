#include "serving/canary_watch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "engine/base/shown_text.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

// For the lower bound of a rate. Rules are checked several times a second, so three deviations would be exceeded by
// chance now and then.
constexpr double kDeviations = 4;

// Wilson's lower bound of a rate, given `hits` of `all`.
double LowerBound(int64_t hits, int64_t all) {
  if (all == 0) return 0;
  const double n = static_cast<double>(all), p = static_cast<double>(hits) / n, z2 = kDeviations * kDeviations;
  return (p + z2 / (2 * n) - kDeviations * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n);
}

template <size_t N>
std::array<int64_t, N> Loaded(const std::array<std::atomic<int64_t>, N>& counts) {
  std::array<int64_t, N> values;
  std::ranges::transform(counts, values.begin(), [](const auto& count) { return count.load(); });
  return values;
}

template <typename Counts>
int64_t SumOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

StatusOr<AbortRule> AbortRuleOf(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return InvalidArgument("--abort-if {}: {}; give errors=DIFFERENCE, such as errors=0.01, or pN=RATIO, such as p99=2",
                           Shortened(text), what);
  };
  const size_t equals = text.find('=');
  if (equals == text.npos) return wrong("it has no '='");
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  const auto read = [](std::string_view digits, double& number) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  AbortRule rule{.text = std::string(text)};
  if (!read(value, rule.bound)) return wrong("the bound is no number");
  if (name == "errors") {
    if (!(rule.bound >= 0 && rule.bound < 1)) return wrong("a difference of error rates is 0 or more and below 1");
    return rule;
  }
  double percent = 0;
  if (!name.starts_with('p') || !read(name.substr(1), percent) || !(percent >= 1 && percent <= 99.9))
    return wrong("only errors and latencies p1 to p99.9 are compared");
  if (!(rule.bound >= 1 && rule.bound <= 1e6)) return wrong("a ratio of latencies is 1 to a million");
  rule.quantile = percent / 100;
  return rule;
}

void ComparedSide::Tell(const Status& status, const RequestTimes& times) {
  if (status.ok()) {
    const double us = static_cast<double>((times.queue + times.compute).count()) * 1e-3;
    const int bucket = us <= 1 ? 0 : std::min(static_cast<int>(std::log2(us) * kOfDoubling), kBuckets - 1);
    by_latency_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  } else if (!absl::IsCancelled(status)) {
    failed_.fetch_add(1, std::memory_order_relaxed);
  }
}

std::string CanaryWatch::Worse(const std::vector<AbortRule>& rules) {
  const auto here = Loaded(canary.by_latency_), there = Loaded(stable.by_latency_);
  const int64_t failed = canary.failed_, stable_failed = stable.failed_;
  const int64_t answered = SumOf(here), stable_answered = SumOf(there);
  const int64_t all = answered + failed, stable_all = stable_answered + stable_failed;
  for (const AbortRule& rule : rules) {
    if (rule.quantile == 0) {
      const double usual = stable_all == 0 ? 0 : static_cast<double>(stable_failed) / static_cast<double>(stable_all);
      if (LowerBound(failed, all) > usual + rule.bound)
        return fmt::format("{} of {} requests failed, and {} of {} of '{}' (--abort-if {})", failed, all, stable_failed,
                           stable_all, kStableLabel, rule.text);
      continue;
    }
    // A percentile of fewer requests is not reliable.
    constexpr double kLeastBeyond = 10;
    if (static_cast<double>(stable_answered) * (1 - rule.quantile) < kLeastBeyond) continue;
    const auto edge = [](size_t bucket) {
      return std::exp2(static_cast<double>(bucket) / ComparedSide::kOfDoubling);  // in microseconds
    };
    size_t bucket = 0;
    for (int64_t below = there[0]; static_cast<double>(below) < rule.quantile * static_cast<double>(stable_answered);)
      below += there[++bucket];
    const double bound = rule.bound * edge(bucket + 1);
    int64_t slower = 0;
    for (size_t i = 0; i < here.size(); ++i)
      if (edge(i) >= bound) slower += here[i];
    if (LowerBound(slower, answered) > 1 - rule.quantile)
      return fmt::format(
          "{} of {} requests took more than {:.3g} ms, {:.6g} times the {:.6g}th percentile of '{}' "
          "(--abort-if {})",
          slower, answered, bound * 1e-3, rule.bound, rule.quantile * 100, kStableLabel, rule.text);
  }
  if (all >= kWindow) {
    for (ComparedSide* const side : {&stable, &canary}) {
      side->failed_ = 0;
      for (auto& count : side->by_latency_) count = 0;
    }
  }
  return std::string();
}

}  // namespace rivulet
