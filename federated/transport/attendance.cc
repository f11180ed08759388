#include "federated/transport/attendance.h"

namespace rivulet {

// Stands between transport and coordinator, so that neither has to know who must still be told of the end before a
// process may stop serving.
StatusOr<PollReply> Attendance::Poll(const PollRequest& request) {
  StatusOr<PollReply> reply = api_.Poll(request);
  if (reply.ok()) {
    MutexLock lock(mutex_);
    if (!reply->over) {
      unaware_.insert(request.caller.name);
    } else if (unaware_.erase(request.caller.name) > 0 && unaware_.empty()) {
      told_.NotifyAll();
    }
  }
  return reply;
}

StatusOr<std::unique_ptr<ChunkReader>> Attendance::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  return api_.Fetch(caller, blob, offset);
}

StatusOr<std::unique_ptr<ChunkWriter>> Attendance::Submit(const Caller& caller, const Submission& submission) {
  return api_.Submit(caller, submission);
}

Status Attendance::Fail(const Caller& caller, const TaskFailure& failure) { return api_.Fail(caller, failure); }

void Attendance::Expect(std::string client_id) {
  MutexLock lock(mutex_);
  unaware_.insert(std::move(client_id));
}

bool Attendance::WaitUntilAllKnow(std::chrono::milliseconds timeout) {
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mutex_);
  while (!unaware_.empty()) {
    const auto left = give_up - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    told_.WaitFor(mutex_, left);
  }
  return true;
}

}  // namespace rivulet
