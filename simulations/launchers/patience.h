// The patience of a worker with a simulation that does not answer, and the calls that restore it.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A worker must not wait forever for a simulation that ended without notice, or never began. Thread-safe: all threads
// of a worker share one.
class Patience {
 public:
  // 0: forever.
  explicit Patience(std::chrono::seconds patience) : patience_(patience) {}
  void Answered() {
    MutexLock lock(mutex_);
    answered_ = Clock::now();
    missing_ = false;
  }
  // One thread received the end of the run. The serving process may end before another thread receives it.
  void RunIsOver() {
    MutexLock lock(mutex_);
    run_over_ = true;
  }
  // Whether this is the first miss since an answer.
  bool FirstMiss() {
    MutexLock lock(mutex_);
    return !std::exchange(missing_, true);
  }
  bool run_is_over() const {
    MutexLock lock(mutex_);
    return run_over_;
  }
  bool exhausted() const {
    MutexLock lock(mutex_);
    return patience_.count() > 0 && Clock::now() - answered_ > patience_;
  }
  int64_t seconds() const { return patience_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::seconds patience_;
  mutable Mutex mutex_;
  Clock::time_point answered_ GUARDED_BY(mutex_) = Clock::now();
  bool missing_ GUARDED_BY(mutex_) = false, run_over_ GUARDED_BY(mutex_) = false;
};

// Passes calls on to `api`, and reports answers and the end of the run to `patience`. Both must outlive it.
class HeardApi final : public CoordinatorApi {
 public:
  HeardApi(CoordinatorApi& api, Patience& patience) : api_(api), patience_(patience) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override {
    StatusOr<PollReply> reply = Heard(api_.Poll(request));
    if (reply.ok() && reply->over) patience_.RunIsOver();
    return reply;
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    return Heard(api_.Fetch(caller, blob, offset));
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    return Heard(api_.Submit(caller, submission));
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override { return api_.Fail(caller, failure); }

 private:
  template <typename Reply>
  Reply Heard(Reply reply) {
    if (!absl::IsUnavailable(reply.status()) && !absl::IsDeadlineExceeded(reply.status())) patience_.Answered();
    return reply;
  }

  CoordinatorApi& api_;
  Patience& patience_;
};

}  // namespace rivulet
