// Clock interface. Code that receives a clock reads time only from it, so that a test can advance a day at once.
#pragma once

#include <atomic>
#include <cstdint>

namespace rivulet {

using TimeMs = int64_t;  // of a clock that nobody sets; only differences matter

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeMs Now() const = 0;      // never goes back; at least 1
  virtual int64_t UnixMs() const = 0;  // milliseconds since 1970 UTC, for rows and logs
  static Clock& System();
};

// Stands still until it is moved.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t unix_ms = 1'738'333'530'123) : unix_ms_(unix_ms) {}  // 2025-01-31T14:25:30.123Z
  TimeMs Now() const override { return now_.load(); }
  int64_t UnixMs() const override { return unix_ms_ + now_.load() - 1; }
  void Advance(int64_t ms) { now_ += ms; }

 private:
  const int64_t unix_ms_;  // at time 1
  std::atomic<TimeMs> now_ = 1;
};

}  // namespace rivulet
