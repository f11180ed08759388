#include "engine/base/clock.h"

#include <algorithm>
#include <chrono>

namespace rivulet {
namespace {

class SystemClock : public Clock {
 public:
  TimeMs Now() const override { return std::max<TimeMs>(1, MillisecondsOf(std::chrono::steady_clock::now())); }
  int64_t UnixMs() const override { return MillisecondsOf(std::chrono::system_clock::now()); }

 private:
  template <class TimePoint>
  static int64_t MillisecondsOf(TimePoint time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  }
};

}  // namespace

Clock& Clock::System() {
  static SystemClock clock;
  return clock;
}

}  // namespace rivulet
