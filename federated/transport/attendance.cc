#include "federated/transport/attendance.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr std::chrono::seconds kSecondProcess{1};

}  // namespace

// Stands between transport and coordinator, so that neither has to know who must still be told of the end before a
// process may stop serving.
StatusOr<PollReply> Attendance::Poll(const PollRequest& request) {
  StatusOr<PollReply> reply = api_.Poll(request);
  if (reply.ok()) {
    const auto& [name, serial, run_id, session] = request.caller;
    MutexLock lock(mutex_);
    if (!reply->over) {
      unaware_.insert(name);
      sessions_.emplace(name, session);
    } else {
      unaware_.erase(name);
      sessions_.erase({name, session});
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

// A process that is not told would look for its coordinator for ever. One whose name has been told may be the second of
// that name, which comes with its next poll, or a first one that was killed and never comes: it is worth a second.
bool Attendance::WaitUntilAllKnow(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  const auto wait_for = [&](const auto& unaware, std::chrono::milliseconds patience) {
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (!unaware.empty()) {
      const auto left = give_up - std::chrono::steady_clock::now();
      if (left <= left.zero()) return false;
      told_.WaitFor(mutex_, left);
    }
    return true;
  };
  if (!wait_for(unaware_, timeout)) return false;
  (void)wait_for(sessions_, std::min<std::chrono::milliseconds>(timeout, kSecondProcess));
  return true;
}

}  // namespace rivulet
