// The two clocks of a run: the monotonic one for deadlines, and the calendar's for rows.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "coordinator/rounds/lease_book.h"

namespace rivulet {

// Clocks of one run. Thread-safe.
class RunClock {
 public:
  // `now_ms` replaces both clocks; null: those of the system.
  explicit RunClock(std::function<int64_t()> now_ms) : now_ms_(std::move(now_ms)) {}

  TimeMs Now() const { return now_ms_ ? now_ms_() : 1 + MillisecondsOf(std::chrono::steady_clock::now() - start_); }
  // Milliseconds since 1970 UTC.
  int64_t UnixMs() const {
    return now_ms_ ? now_ms_() : MillisecondsOf(std::chrono::system_clock::now().time_since_epoch());
  }

 private:
  template <typename Duration>
  static int64_t MillisecondsOf(Duration duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  }
  const std::function<int64_t()> now_ms_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace rivulet
