// Records of single clients, beyond their leases: the times of the last call, of the last own poll and in their row,
// and the end of their last task. A pure value. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/ledger/ledger.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

class ClientBook {
 public:
  // A poll of it at a time in milliseconds since 1970 UTC.
  void Saw(const std::string& client_id, int64_t unix_ms);
  // It polled, or an aggregator named it, at a time of the coordinator's clock.
  void Heard(const std::string& client_id, TimeMs now) { seen_[client_id].heard = now; }
  std::optional<TimeMs> LastHeard(const std::string& client_id) const;
  void Left(const std::string& client_id);  // as if it had not been heard of
  // Names and times of those whose row is to be brought up to date in the transaction of `attempt`, which from now on
  // counts as written: its workers, those whose row is a minute old, and all at the end of the run. Waiting clients
  // poll often, and a minute is exact enough for them. A client whose site speaks for it was seen when its attempt was.
  // O(what it gives · log of the clients that wait).
  std::vector<std::pair<std::string, int64_t>> TakeSeen(const ClosedAttempt& attempt, int64_t now_unix_ms,
                                                        bool finishes_run);

  void Remember(const std::string& client_id, TaskOutcome outcome);  // the last counts
  // The version that this task is in is written, if it is the last of its client.
  void IsDurable(const std::string& client_id, const TaskId& task);
  // null: none is known.
  const TaskOutcome* LastOutcome(const std::string& client_id) const;
  // True the first time for each client of whom no outcome is known: whoever asks looks it up in the history then.
  bool ShouldLookUp(const std::string& client_id);

 private:
  struct Seen {
    int64_t unix_ms = 0;
    int64_t written_unix_ms = 0;  // as the history has it; 0: never
    bool waits = false;           // is in waiting_
    std::optional<TimeMs> heard;
  };
  struct Later {
    bool operator()(const std::pair<int64_t, std::string>& a, const std::pair<int64_t, std::string>& b) const {
      return a.first > b.first;
    }
  };
  std::unordered_map<std::string, Seen> seen_;
  // When the row of a client that has polled since it was written is a minute old, or was when it came in here: rows of
  // workers are written sooner.
  std::priority_queue<std::pair<int64_t, std::string>, std::vector<std::pair<int64_t, std::string>>, Later> waiting_;
  std::unordered_map<std::string, TaskOutcome> outcomes_;
  std::unordered_map<std::string, bool> looked_up_;
};

}  // namespace rivulet
