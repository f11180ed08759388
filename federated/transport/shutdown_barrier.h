// A CoordinatorApi that delays a coordinator's exit until its clients know that the run is over. It passes every call
// on, and records which clients have called and which have received the end.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Thread-safe.
class ShutdownBarrier final : public CoordinatorApi {
 public:
  explicit ShutdownBarrier(CoordinatorApi& api) : api_(api) {}  // must outlive this

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override { api_.SetListener(listener); }

  // A client to wait for although it has not called this process yet, such as one of a resumed run.
  void Expect(std::string client_id);

  // Waits until every client that polled or is expected has received the end, and returns true. Returns false after
  // `timeout`, or when each remaining client is five seconds late for its poll, as a dead one is. A second process of a
  // name gets one second more.
  bool WaitUntilAllKnow(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;

  CoordinatorApi& api_;
  Mutex mutex_;
  CondVar told_;
  // Who has polled, and not been told; and when it is not waited for any more.
  std::map<std::string, Clock::time_point> unaware_ GUARDED_BY(mutex_);
  std::set<std::pair<std::string, uint64_t>> sessions_ GUARDED_BY(mutex_);  // the same of each process
};

}  // namespace rivulet
