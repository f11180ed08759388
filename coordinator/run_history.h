// A run's history, open for queries at any time: it closes when the last of them is answered.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "coordinator/history/history.h"
#include "engine/base/mutex.h"

namespace rivulet {

// Guard of an open history. Thread-safe.
class RunHistory {
 public:
  explicit RunHistory(std::unique_ptr<History> history) : history_(std::move(history)) {}

  // Access for the run's own threads, which end before it closes.
  History& operator*() const { return *history_; }
  History* operator->() const { return history_.get(); }

  // The result of `ask`, which may take long; no lock is held meanwhile. Nullopt: the history is closed.
  template <typename Ask>
  auto WhileOpen(const Ask& ask) EXCLUDES(mutex_) -> std::optional<decltype(ask())> {
    {
      MutexLock lock(mutex_);
      if (closed_) return std::nullopt;
      ++askers_;
    }
    std::optional<decltype(ask())> answer = ask();
    MutexLock lock(mutex_);
    if (--askers_ == 0) idle_.NotifyAll();
    return answer;
  }

  // Waits for running queries. All rows are committed; a log that cannot be merged into the file stays beside it.
  void Close() EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closed_ = true;
      while (askers_ > 0) idle_.Wait(mutex_);
    }
    history_->Close().IgnoreError();
  }

 private:
  const std::unique_ptr<History> history_;
  Mutex mutex_;
  CondVar idle_;
  bool closed_ GUARDED_BY(mutex_) = false;
  int64_t askers_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rivulet
