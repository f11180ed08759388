// A rate-limited log for lines caused by foreign peers: each sentence at most once a minute, at most so many
// sentences a minute. Sentences are cleaned and shortened, and omitted ones are counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/mutex.h"

namespace rivulet {

// Thread-safe; `tell` is called under a lock, one call at a time, and must not call this.
class RateLimitedLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kUsualInAMinute = 20;
  // `now`: of the steady clock; null: the machine's.
  explicit RateLimitedLog(std::function<void(const std::string& sentence)> tell,
                          std::function<Clock::time_point()> now = nullptr, size_t most_in_a_minute = kUsualInAMinute)
      : tell_(std::move(tell)), now_(std::move(now)), most_in_a_minute_(most_in_a_minute) {}
  // The first line of a new minute follows a count of the lines that the minute before left out.
  void Tell(std::string_view sentence);
  // Tells that count now, where there is one: before the end of whoever has the log.
  void TellRest();

 private:
  void TellLeftOut() REQUIRES(mutex_);

  const std::function<void(const std::string&)> tell_;
  const std::function<Clock::time_point()> now_;
  const size_t most_in_a_minute_;
  Mutex mutex_;
  Clock::time_point minute_ GUARDED_BY(mutex_);
  std::set<std::string> told_ GUARDED_BY(mutex_);
  int64_t left_out_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
