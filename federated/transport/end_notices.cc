#include "federated/transport/end_notices.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr std::chrono::seconds kGrace{5};  // of a slow machine or network
constexpr std::chrono::seconds kSecondProcess{1};

}  // namespace

void EndNotices::Answered(const PollRequest& request, const PollReply& reply) {
  const std::string& name = request.caller.name;
  const uint64_t session = request.caller.session;
  MutexLock lock(mutex_);
  // An aggregator tells those whom it serves.
  for (const ServedName& served : request.serves.names) unaware_.erase(served.name);
  if (!reply.over) {
    unaware_[name] = Clock::now() + std::chrono::milliseconds(reply.wait_ms) + kGrace;
    sessions_.emplace(name, session);
    return;
  }
  unaware_.erase(name);
  sessions_.erase({name, session});
  told_.NotifyAll();
}

void EndNotices::Expect(std::string client_id) {
  MutexLock lock(mutex_);
  unaware_[std::move(client_id)] = Clock::time_point::max();
}

// A process that is not told would look for its coordinator for ever. One whose name has been told may be the second of
// that name, which comes with its next poll, or a first one that was killed and never comes: it is worth a second.
bool EndNotices::WaitUntilAllKnow(std::chrono::milliseconds timeout) {
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
