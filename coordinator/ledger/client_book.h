// Records of single clients, beyond their leases: the times of the last call, of the last direct poll and in their row,
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
  // The client polled, at a time in milliseconds since 1970 UTC.
  void Saw(const std::string& client_id, int64_t unix_ms);
  // It polled, or an aggregator named it, at a time on the coordinator's clock.
  void Heard(const std::string& client_id, TimeMs now) { seen_[client_id].heard = now; }
  std::optional<TimeMs> LastHeard(const std::string& client_id) const;
  void Left(const std::string& client_id);  // as if it had never called
  // Names and times of the clients whose rows are updated in the transaction of `attempt`, and count as written from
  // now on: its workers, clients with rows a minute old, and all at the end of the run. Waiting clients poll often, and
  // a minute is exact enough for them. A client with a site that polls for it was last seen with its attempt. O(size of
  // the result · log of the number of waiting clients).
  std::vector<std::pair<std::string, int64_t>> TakeSeen(const ClosedAttempt& attempt, int64_t now_unix_ms,
                                                        bool finishes_run);

  void Remember(const std::string& client_id, TaskOutcome outcome);  // the last one counts
  // Marks the version with this task as written, if it is the client's last task.
  void IsDurable(const std::string& client_id, const TaskId& task);
  // null: unknown.
  const TaskOutcome* LastOutcome(const std::string& client_id) const;
  // True once for each client without a known outcome: the caller then queries the history.
  bool ShouldLookUp(const std::string& client_id);

 private:
  struct Seen {
    int64_t unix_ms = 0;
    int64_t written_unix_ms = 0;  // in the history; 0: never
    bool waits = false;           // it is in waiting_
    std::optional<TimeMs> heard;
  };
  struct Later {
    bool operator()(const std::pair<int64_t, std::string>& a, const std::pair<int64_t, std::string>& b) const {
      return a.first > b.first;
    }
  };
  std::unordered_map<std::string, Seen> seen_;
  // When the row of a client that has polled since will be a minute old, or would have been when it was added: workers'
  // rows are written earlier.
  std::priority_queue<std::pair<int64_t, std::string>, std::vector<std::pair<int64_t, std::string>>, Later> waiting_;
  std::unordered_map<std::string, TaskOutcome> outcomes_;
  std::unordered_map<std::string, bool> looked_up_;
};

}  // namespace rivulet
