// Record of the clients that have received the end of a run, so that a process does not exit before.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/base/mutex.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Thread-safe. Its lock may be taken while other locks are held.
class EndNotices {
 public:
  // Records the reply to a poll.
  void Answered(const PollRequest& request, const PollReply& reply);

  // A client to wait for although it has not called this process yet, such as one of a resumed run.
  void Expect(std::string client_id);

  // Waits until every client that polled or is expected has received the end, and returns true. Returns false after
  // `timeout`, or when each remaining client is five seconds late for its poll and so presumably dead. A second process
  // of a client gets one second more.
  bool WaitUntilAllKnow(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;

  Mutex mutex_;
  CondVar told_;
  // Clients that have polled without receiving the end, with the time at which waiting for them stops.
  std::map<std::string, Clock::time_point> unaware_ GUARDED_BY(mutex_);
  std::set<std::pair<std::string, uint64_t>> sessions_ GUARDED_BY(mutex_);  // the same for each process
};

}  // namespace rivulet
