// A log whose lines are caused by strangers: each sentence at most once a minute, at most 20 sentences a minute.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "engine/base/mutex.h"

namespace rivulet {

// Thread-safe, as `tell` is not asked to be.
class RateLimitedLog {
 public:
  explicit RateLimitedLog(std::function<void(const std::string& sentence)> tell) : tell_(std::move(tell)) {}
  void Tell(const std::string& sentence) {
    constexpr size_t kMostInAMinute = 20;
    if (!tell_) return;
    MutexLock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - minute_ > std::chrono::minutes(1)) {
      minute_ = now;
      told_.clear();
    }
    if (told_.size() < kMostInAMinute && told_.insert(sentence).second) tell_(sentence);
  }

 private:
  const std::function<void(const std::string&)> tell_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point minute_ GUARDED_BY(mutex_);
  std::set<std::string> told_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
