// Comparison of a canary with the stable version: errors and latencies of the requests that the canary's share divides
// between them, and rules by which the canary is worse. Requests that name a version or label are not compared.
//
// A rule is violated once chance no longer explains the difference: the lower bound of the canary's rate, at four
// standard deviations (Wilson 1927), exceeds the rule's bound. A canary that always fails is found after some ten
// requests, one that is slightly worse after thousands. Counts restart after kWindow requests of the canary, so that a
// canary that becomes bad late is found too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "serving/batcher.h"

namespace rivulet {

// "errors=0.01": the canary's rate of failed requests exceeds the stable version's by more than 0.01. "p99=2": the
// canary's 99th percentile of latency is more than twice the stable version's.
struct AbortRule {
  double quantile = 0;  // of latencies, above 0 and below 1; 0: errors
  double bound = 0;     // errors: a difference of 0 .. 1; latencies: a ratio of at least 1
  std::string text;     // the original text
};
// INVALID_ARGUMENT: the text is no rule.
StatusOr<AbortRule> AbortRuleOf(std::string_view text);

// The counts of one version. Thread-safe; a request costs a logarithm and an atomic addition.
class ComparedSide {
 public:
  // Every end without an answer is an error, unless the caller has gone.
  void Tell(const Status& status, const RequestTimes& times);

 private:
  friend class CanaryWatch;
  // Buckets of latencies: eight for each doubling, from a microsecond to a minute.
  static constexpr int kOfDoubling = 8, kBuckets = 26 * kOfDoubling;
  std::atomic<int64_t> failed_ = 0;
  std::array<std::atomic<int64_t>, kBuckets> by_latency_ = {};
};

// Comparison of both versions. Thread-safe, except for Worse, which one thread calls.
class CanaryWatch {
 public:
  static constexpr int64_t kWindow = 10'000;
  ComparedSide stable, canary;

  // Why the canary is worse by one of `rules`; "": it is not, or not certainly.
  std::string Worse(const std::vector<AbortRule>& rules);
};

}  // namespace rivulet
