#include "dataflow/session/active_run.h"

#include <vector>

namespace rivulet {

void ActiveRuns::Close(const Status& reason) {
  std::vector<CancellationToken> tokens;  // cancelled without the lock: callbacks may end runs
  {
    MutexLock lock(mutex_);
    closed_ = true;
    for (ActiveRun* run : runs_) {
      MutexLock run_lock(run->mutex_);
      if (run->reason_.ok()) run->reason_ = Status(reason.code(), reason.message());  // its own Status, see Execution
      tokens.push_back(run->token_);
    }
  }
  for (const CancellationToken& token : tokens) token.Cancel();
}

// A run may be ended by its caller, its timeout or its session. All three cancel one token, so the run checks only
// that. The first one records the reason, and Explain replaces a plain CANCELLED by it.
StatusOr<std::unique_ptr<ActiveRun>> ActiveRun::Create(std::shared_ptr<ActiveRuns> runs, const CancellationToken& outer,
                                                       std::chrono::milliseconds timeout) {
  std::unique_ptr<ActiveRun> run(new ActiveRun());
  {
    MutexLock lock(runs->mutex_);
    if (runs->closed_) return FailedPrecondition("the session is closed; create another one to run");
    runs->runs_.insert(run.get());
  }
  run->runs_ = std::move(runs);
  run->outer_ = outer;
  run->outer_callback_ = outer.OnCancel([token = run->token_] { token.Cancel(); });
  if (outer.cancelled()) run->token_.Cancel();
  if (timeout.count() > 0) {
    const Clock::time_point now = Clock::now();
    // Limits the timeout to a year, so that clock arithmetic does not overflow.
    run->deadline_ = now + std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
    run->alarm_.emplace(run->deadline_, [raw = run.get(), timeout] {
      {
        MutexLock lock(raw->mutex_);
        if (raw->reason_.ok())
          raw->reason_ = DeadlineExceeded("the run was cancelled: it took longer than its {} ms", timeout.count());
      }
      raw->token_.Cancel();
    });
  }
  return run;
}

// Destroys the alarm first and waits for its callback, which refers to this run.
ActiveRun::~ActiveRun() {
  alarm_.reset();
  outer_.Forget(outer_callback_);
  if (runs_ == nullptr) return;
  MutexLock lock(runs_->mutex_);
  runs_->runs_.erase(this);
}

Status ActiveRun::Explain(Status status) const {
  MutexLock lock(mutex_);
  if (!absl::IsCancelled(status) || reason_.ok()) return status;
  return Status(reason_.code(), reason_.message());
}

}  // namespace rivulet
