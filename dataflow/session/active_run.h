// A run in progress, as tracked by its session, with reasons to end it early.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "dataflow/session/alarm.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/program/cancellation.h"

namespace rivulet {

class ActiveRun;

// The runs of a session that are in progress. Thread-safe.
class ActiveRuns {
 public:
  // Ends all runs with `reason`, and refuses new ones.
  void Close(const Status& reason);
  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

 private:
  friend class ActiveRun;
  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::set<ActiveRun*> runs_ GUARDED_BY(mutex_);
};

class ActiveRun {
 public:
  using Clock = std::chrono::steady_clock;
  // Cancelled by `outer`, by ActiveRuns::Close, or after `timeout` (0: never). FAILED_PRECONDITION: closed.
  static StatusOr<std::unique_ptr<ActiveRun>> Create(std::shared_ptr<ActiveRuns> runs, const CancellationToken& outer,
                                                     std::chrono::milliseconds timeout);
  ~ActiveRun();
  ActiveRun(const ActiveRun&) = delete;
  ActiveRun& operator=(const ActiveRun&) = delete;

  const CancellationToken& token() const { return token_; }
  Clock::time_point deadline() const { return deadline_; }
  // Replaces CANCELLED by its reason, unless the caller cancelled.
  Status Explain(Status status) const;

 private:
  friend class ActiveRuns;
  ActiveRun() = default;
  std::shared_ptr<ActiveRuns> runs_;
  CancellationToken token_ = CancellationToken::Create();
  CancellationToken outer_;
  uint64_t outer_callback_ = 0;
  Clock::time_point deadline_ = Clock::time_point::max();
  mutable Mutex mutex_;
  Status reason_ GUARDED_BY(mutex_);
  std::optional<Alarm> alarm_;
};

}  // namespace rivulet
