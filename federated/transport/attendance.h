// A CoordinatorApi that passes every call on and remembers who has called and who has been told that the run is over,
// so that a coordinator does not leave before its clients know.
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
class Attendance final : public CoordinatorApi {
 public:
  explicit Attendance(CoordinatorApi& api) : api_(api) {}  // must outlive this

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void TellNews(NewsListener* listener) override { api_.TellNews(listener); }

  // Somebody who will want to know, although this process has not heard of it: a client of a run that is resumed.
  void Expect(std::string client_id);

  // Waits until everybody who has polled or is expected has been told that it is over: true. False when whoever is left
  // has not polled when it was to, and five seconds more (a client that died), or after `timeout`. Of a name with two
  // processes the second gets a second more.
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
