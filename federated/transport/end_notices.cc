#include "federated/transport/end_notices.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr std::chrono::seconds kGrace{5};  // for a slow machine or network
constexpr std::chrono::seconds kSecondProcess{1};

}  // namespace

void EndNotices::Answered(const PollRequest& request, const PollReply& reply) {
  const std::string& name = request.caller.name;
  const uint64_t session = request.caller.session;
  MutexLock lock(mutex_);
  // An aggregator notifies the clients that it serves.
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

// A process that never receives the end would search for its coordinator forever. If a client's name has been notified,
// another process of that name may still poll, or was killed and never will: it is given one second.
bool EndNotices::WaitUntilAllKnow(std::chrono::milliseconds timeout) {
  const auto begin = Clock::now(), give_up = begin + timeout;
  MutexLock lock(mutex_);
  while (!unaware_.empty()) {
    // A held poll counts from its reply, which happens now, not from its start.
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
