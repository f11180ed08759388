#include "federated/transport/shutdown_barrier.h"

namespace rivulet {

StatusOr<PollReply> ShutdownBarrier::Poll(const PollRequest& request) {
  StatusOr<PollReply> reply = api_.Poll(request);
  if (reply.ok()) notices_.Answered(request, *reply);
  return reply;
}

StatusOr<std::unique_ptr<ChunkReader>> ShutdownBarrier::Fetch(const Caller& caller, const BlobId& blob,
                                                              int64_t offset) {
  return api_.Fetch(caller, blob, offset);
}

StatusOr<std::unique_ptr<ChunkWriter>> ShutdownBarrier::Submit(const Caller& caller, const Submission& submission) {
  return api_.Submit(caller, submission);
}

Status ShutdownBarrier::Fail(const Caller& caller, const TaskFailure& failure) { return api_.Fail(caller, failure); }

}  // namespace rivulet
