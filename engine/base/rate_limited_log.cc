#include "engine/base/rate_limited_log.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/display_name.h"

namespace rivulet {

void RateLimitedLog::Tell(std::string_view sentence) {
  constexpr size_t kMostBytes = 600;
  if (!tell_) return;
  const std::string shown = DisplayText(sentence, kMostBytes);
  MutexLock lock(mutex_);
  const Clock::time_point now = now_ ? now_() : Clock::now();
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    told_.clear();
    TellLeftOut();
  }
  if (told_.size() < most_in_a_minute_ && told_.insert(shown).second) {
    tell_(shown);
  } else {
    ++left_out_;
  }
}

void RateLimitedLog::TellRest() {
  MutexLock lock(mutex_);
  TellLeftOut();
}

void RateLimitedLog::TellLeftOut() {
  const int64_t count = std::exchange(left_out_, 0);
  if (count == 0 || !tell_) return;
  tell_(fmt::format("{} more {} of this kind {} left out", count, count == 1 ? "line" : "lines",
                    count == 1 ? "was" : "were"));
}

}  // namespace rivulet
