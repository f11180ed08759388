// Policies of the run machine: presence of clients, exclusion from draws, poll intervals, and the delay after a failed
// attempt. Pure values and functions; each has its test without a machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/rounds/update_buffer.h"

namespace rivulet {

// Record of the clients that called lately. Times never go back. Memory: the names that called within the time.
//
// For presence_ms after the beginning, all clients count as present: a restarted run asks the same clients as before,
// although they have not had time to come back.
class Presence {
 public:
  // presence_ms: a client that was silent for so long is absent, as is one with a lapsed lease; 0: none ever is.
  explicit Presence(int64_t presence_ms = 0) : presence_ms_(presence_ms) {}
  void Begin(TimeMs now);  // once; later calls change nothing
  void Saw(const std::string& client_id, TimeMs now);
  void Forget(const std::string& client_id);
  // Its lease lapsed: the client is absent until it is seen again.
  void Lost(const std::string& client_id);
  // A site of many clients: while it is present, all of them are, including those whose leases lapsed before it came.
  void SawSite(const std::string& site, TimeMs now);
  bool IsPresent(const std::string& client_id, TimeMs now) const;
  int64_t CountPresent(int64_t members, TimeMs now);  // of so many members
  int64_t sites() const {
    return static_cast<int64_t>(sites_.size());
  }  // that polled within a minute of the latest poll
  int64_t presence_ms() const { return presence_ms_; }

  // Content for a snapshot.
  std::optional<TimeMs> began() const { return began_; }
  const std::map<std::string, TimeMs>& seen_sites() const { return sites_; }
  const std::set<std::pair<TimeMs, std::string>>& seen() const { return by_time_; }
  const std::set<std::string>& lost() const { return lost_; }

 private:
  bool EverybodyIsPresent(TimeMs now) const;

  int64_t presence_ms_;
  std::optional<TimeMs> began_;
  std::map<std::string, TimeMs> sites_;
  TimeMs newest_site_ = 0;  // time of the latest poll of a site, if there are sites
  std::unordered_map<std::string, TimeMs> seen_;
  std::set<std::pair<TimeMs, std::string>> by_time_;  // the same, longest silent first
  std::set<std::string> lost_;
};

// Clients excluded from the current version, because their update was refused or their task failed.
class ExcludedClients {
 public:
  void Add(const std::string& client_id);  // once per name
  void Clear() { *this = {}; }             // a new version
  // Readmits the longest excluded clients until `wanted` of `members` are available or none is excluded. So refusals
  // cannot end a run.
  void ForgiveUntil(int64_t members, int64_t wanted);
  const std::set<std::string>& names() const { return names_; }
  const std::vector<std::string>& in_order() const { return in_order_; }  // longest first

 private:
  std::set<std::string> names_;
  std::vector<std::string> in_order_;
};

// The pause before the next attempt after an abandoned one. It doubles each time.
struct Retry {
  int64_t first_pause_ms = 0;  // 0: never a pause
  int64_t longest_pause_ms = 300'000;
  // After so many attempts at one round; doubled each time.
  int64_t PauseAfter(int64_t attempts) const;
};

// How often clients and sites call, and how many tasks a site gets.
struct PollIntervals {
  // Milliseconds until one of `waiting` callers may poll again: together they poll at most a thousand times a second.
  static int64_t WaitFor(int64_t waiting);
  // Milliseconds between heartbeats of one of `sites`: a thousand a second for all together, but at least one a second
  // per site, and three per lease.
  static int64_t Heartbeat(int64_t sites, int64_t lease_ms);
  // The number of tasks for one of `sites` that asks for `want` while `offered` are left: half of an even share. So the
  // last tasks of a cohort are spread over all sites, and none waits long for a site that took many. At least one if it
  // wants one. `sites` is at least 1.
  static int64_t FairShare(int64_t want, int64_t offered, int64_t sites);
};

}  // namespace rivulet
