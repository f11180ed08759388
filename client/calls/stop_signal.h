// Signal that stops a client, whether it trains, waits or is between the two. It can also cancel the current task
// alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "engine/base/mutex.h"
#include "engine/program/program.h"

namespace rivulet {

// The signal. Thread-safe. Stop is final.
class StopSignal {
 public:
  // `sleep` replaces real waiting (tests); null: waits on the wall clock.
  explicit StopSignal(std::function<void(int64_t ms)> sleep = nullptr)
      : sleep_(std::move(sleep)), stop_(CancellationToken::Create()), task_(CancellationToken::Create()) {}

  // Ends every Sleep and every program that runs under token().
  void Stop() {
    stop_.Cancel();
    token().Cancel();
    MutexLock lock(mutex_);
    condition_.NotifyAll();
  }
  bool stopped() const { return stop_.cancelled(); }
  // The token of the current task.
  CancellationToken token() const {
    MutexLock lock(mutex_);
    return task_;
  }

  // Ends every program that runs under token(), until BeginTask.
  void CancelTask() { token().Cancel(); }
  bool task_cancelled() const { return token().cancelled(); }
  void BeginTask() {
    const CancellationToken fresh = CancellationToken::Create();
    {
      MutexLock lock(mutex_);
      task_ = fresh;
    }
    if (stopped()) fresh.Cancel();  // Stop may have cancelled the one before
  }

  // Waits `ms`. False: stopped before.
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
  const CancellationToken stop_;
  mutable Mutex mutex_;
  CancellationToken task_ GUARDED_BY(mutex_);
  CondVar condition_;
};

}  // namespace rivulet
