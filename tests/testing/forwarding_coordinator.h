// A coordinator behind an interface that a test takes apart, as a site of another process sees it: it overrides what
// shall differ and passes the rest on; nothing is handed over in place.
#pragma once

#include <cstdint>
#include <memory>

#include "federated/transport/coordinator_api.h"

namespace rivulet::testing {

class ForwardingCoordinator : public CoordinatorApi {
 public:
  // `api` must outlive it.
  explicit ForwardingCoordinator(CoordinatorApi& api) : api_(api) {}
  StatusOr<PollReply> Poll(const PollRequest& request) override { return api_.Poll(request); }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override {
    return api_.Fetch(caller, blob, offset);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    return api_.Submit(caller, submission);
  }
  Status Fail(const Caller& caller, const TaskFailure& failure) override { return api_.Fail(caller, failure); }
  void AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) override {
    api_.AwaitWork(caller, epoch, timeout_ms);
  }

 protected:
  CoordinatorApi& api_;
};

}  // namespace rivulet::testing
