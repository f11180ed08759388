#include "federated/transport/shutdown_barrier.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr std::chrono::seconds kGrace{5};  // of a slow machine or network
constexpr std::chrono::seconds kSecondProcess{1};

}  // namespace

// Stands between transport and coordinator, so that neither has to know who must still be told of the end before a
// process may stop serving.
StatusOr<PollReply> ShutdownBarrier::Poll(const PollRequest& request) {
  StatusOr<PollReply> reply = api_.Poll(request);
  if (reply.ok()) {
    const std::string& name = request.caller.name;
    const uint64_t session = request.caller.session;
    MutexLock lock(mutex_);
    // An aggregator tells those whom it serves.
    for (const ServedName& served : request.serves.names) unaware_.erase(served.name);
    if (!reply->over) {
      unaware_[name] = Clock::now() + std::chrono::milliseconds(reply->wait_ms) + kGrace;
      sessions_.emplace(name, session);
    } else {
      unaware_.erase(name);
      sessions_.erase({name, session});
      told_.NotifyAll();
    }
  }
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

void ShutdownBarrier::Expect(std::string client_id) {
  MutexLock lock(mutex_);
  unaware_[std::move(client_id)] = Clock::time_point::max();
}

// A process that is not told would look for its coordinator for ever. One whose name has been told may be the second of
// that name, which comes with its next poll, or a first one that was killed and never comes: it is worth a second.
bool ShutdownBarrier::WaitUntilAllKnow(std::chrono::milliseconds timeout) {
  const auto begin = Clock::now(), give_up = begin + timeout;
  MutexLock lock(mutex_);
  while (!unaware_.empty()) {
    // A poll that is being held was answered last before it began; it is answered now.
    const auto latest = std::ranges::max_element(unaware_, {}, [](const auto& entry) { return entry.second; })->second;
    const auto left = std::min(give_up, std::max(latest, begin + kGrace)) - Clock::now();
    if (left <= left.zero()) return false;
    told_.WaitFor(mutex_, left);
  }
  const auto patience = std::min<Clock::time_point>(give_up, Clock::now() + kSecondProcess);
  while (!sessions_.empty()) {
    const auto left = patience - Clock::now();
    if (left <= left.zero()) break;
    told_.WaitFor(mutex_, left);
  }
  return true;
}

}  // namespace rivulet
