// Thread pool shared by runs: closures run by priority, then in the order of submission.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// Thread-safe. Threads start when there is work, are worker
// threads (EnterWorkerThread), and sleep when there is none.
class ThreadPool {
 public:
  // `threads` 0: one per core.
  ThreadPool(std::string name, int threads);
  // Runs all scheduled closures before it returns.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Schedule(std::function<void()> closure, int64_t priority = 0);
  int threads() const;

  // The process's pool with this name, created at first use. INVALID_ARGUMENT: it has another number of threads.
  static StatusOr<std::shared_ptr<ThreadPool>> Shared(const std::string& name, int threads);
  // Name of the pool that owns the current thread, or "".
  static std::string_view Current();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rivulet
