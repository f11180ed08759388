// "Stop now", for a client that may be training, waiting, or between the two.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "engine/base/mutex.h"
#include "engine/program/program.h"

namespace rivulet {

// Thread-safe. Stopped once, it stays so.
class StopSignal {
 public:
  // `sleep` replaces real waiting (tests); null: waits on the wall clock.
  explicit StopSignal(std::function<void(int64_t ms)> sleep = nullptr)
      : sleep_(std::move(sleep)), token_(CancellationToken::Create()) {}

  // Ends every Sleep and every program that runs under token().
  void Stop() {
    token_.Cancel();
    MutexLock lock(mutex_);
    condition_.NotifyAll();
  }
  bool stopped() const { return token_.cancelled(); }
  const CancellationToken& token() const { return token_; }

  // False when stopped before `ms` had passed.
  bool Sleep(int64_t ms) {
    if (sleep_) {
      if (!stopped()) sleep_(ms);
      return !stopped();
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    MutexLock lock(mutex_);
    for (;;) {
      if (stopped()) return false;
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) return true;
      condition_.WaitFor(mutex_, until - now);
    }
  }

 private:
  std::function<void(int64_t ms)> sleep_;
  CancellationToken token_;
  Mutex mutex_;
  CondVar condition_;
};

}  // namespace rivulet
