// A CoordinatorApi that forwards calls, and records which clients have received the end (end_notices.h). Used by
// aggregators and simulations; a coordinator's ClientRegistry records the same.
#pragma once

#include <chrono>

#include "federated/transport/coordinator_api.h"
#include "federated/transport/end_notices.h"

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

  // Calls EndNotices::WaitUntilAllKnow.
  bool WaitUntilAllKnow(std::chrono::milliseconds timeout) { return notices_.WaitUntilAllKnow(timeout); }

 private:
  CoordinatorApi& api_;
  EndNotices notices_;
};

}  // namespace rivulet
