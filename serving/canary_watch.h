// Comparison of a canary with the stable version: errors and latencies of the requests that the canary's share divides
// between them, and rules by which the canary is worse. Requests that name a version or label are not compared.
//
// A rule holds once chance no longer explains it: the lower bound of the canary's rate, at four standard deviations
// (Wilson 1927), exceeds the rule's bound. A canary that fails always is found after some ten requests, one that is
// worse by a little after thousands. Counts begin anew after kWindow requests of the canary, so that a canary that
// turns bad late is found too.
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

// "errors=0.01": the canary's part of failed requests exceeds the stable one's by more than 0.01.
// "p99=2": the canary's 99th percentile of latency exceeds the stable one's more than twofold.
struct AbortRule {
  double quantile = 0;  // of latencies, above 0 and below 1; 0: errors
  double bound = 0;     // errors: a difference of 0 .. 1; latencies: a ratio of at least 1
  std::string text;     // as it was given
};
// INVALID_ARGUMENT: it is none.
StatusOr<AbortRule> AbortRuleOf(std::string_view text);

// Thread-safe; a request costs a logarithm and an atomic addition.
class ComparedSide {
 public:
  // Every end but an answer is an error, but for that of a caller who has gone.
  void Tell(const Status& status, const RequestTimes& times);

 private:
  friend class CanaryWatch;
  // Buckets of latencies: eight for each doubling, from a microsecond to a minute.
  static constexpr int kOfDoubling = 8, kBuckets = 26 * kOfDoubling;
  std::atomic<int64_t> failed_ = 0;
  std::array<std::atomic<int64_t>, kBuckets> by_latency_ = {};
};

// Thread-safe, but for Worse, which is one thread's.
class CanaryWatch {
 public:
  static constexpr int64_t kWindow = 10'000;
  ComparedSide stable, canary;

  // Why the canary is worse by one of `rules`; "": it is not, or not for sure.
  std::string Worse(const std::vector<AbortRule>& rules);
};

}  // namespace rivulet
