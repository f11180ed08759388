// Book of leases: the client, task, base version and deadline of each. Pure, without a clock.
//
//   offered ──→ taken ──→ held ─────────┐       by a site that folds it into its partial sum
//    │  ↑         │                     ↓
//    ↓  │         └───→ staging ──→ folding ──→ folded       by an upload; no deadline applies during the fold
//   taken, staging ──→ reported ──→ taken     a step that is not the last: it waits at the barrier for the others
//   lapsed ←── taken, staging      no call within a lease: another may take its place, and it may come back
//   any of them ──→ refused | dropped | failed
//
// Cost: O(log n) a call in the number of open leases; memory for the leases. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "federated/tasks/task.h"

namespace rivulet {

inline constexpr size_t kTaskKinds = 2;  // of TaskKind

using TimeMs = int64_t;  // on the caller's clock; only differences matter
// Time on a simulation's clock since the run began: microseconds with devices (fleet.h), else without a unit.
using VirtualTime = int64_t;

// One client's task: its base version, its site and its state.
struct Lease {
  enum class State : uint8_t {
    kOffered,   // drawn; its client has not polled for it yet
    kTaken,     // its client has the task
    kStaging,   // its upload has begun
    kHeld,      // in its site's own partial sum, which stays there until it is requested
    kFolding,   // its update is being aggregated; no deadline applies any more
    kReported,  // its step is done; the next one begins for all together
    kLapsed,    // its client was silent for a lease; it gets the task again at its next poll
    kFolded,
    kRefused,
    kDropped,
    kFailed,  // resolved
  };
  static constexpr size_t kStates = 11;
  TaskId task;
  std::string client_id;
  std::string site;  // the site that has it: its client, or a site that serves it; "" while offered
  std::string via;   // the aggregator through which it is reached; "": none
  TaskKind kind = TaskKind::kTrain;
  int64_t base_round = 0;  // the version that it starts from, or measures
  uint16_t ordinal = 0;    // of this client's lease of this kind at this base version
  int step = 0;
  int told_step = 0;  // the last one that its aggregator received
  State state = State::kOffered;
  TimeMs expires = 0;  // when it lapses unless its site polls; 0: never
  std::string reason;  // of refused, dropped, failed
  // If arrivals follow a virtual clock: this one's time, and whether it was reached, so that a site may have the task.
  VirtualTime arrives = 0;
  bool due = true;
  bool lost = false;  // its device will be gone at `arrives`: no update arrives then, and this is noticed
  // Its update is in the sum, and later steps follow: however the lease ends now, it counts as aggregated.
  bool summed = false;
  bool resolved() const { return state >= State::kFolded; }
  // A site polls for the client, which never polls.
  bool served_by_another() const { return !site.empty() && site != client_id; }
  bool in_hand() const { return state == State::kTaken || state == State::kStaging; }
  // Its site serves other clients too, so its update may be in a partial sum that the site has not reported yet.
  bool promised() const { return in_hand() && site != client_id; }
  bool operator==(const Lease&) const = default;
};
std::string_view Name(Lease::State state);  // "offered" … "failed"

using LeaseSlot = uint32_t;  // identifies a lease until it is removed

class LeaseBook {
 public:
  // Adds a lease in any state, after all others. Its task's name must be new.
  LeaseSlot Add(Lease lease);
  // The reference is valid until the next Add.
  const Lease& at(LeaseSlot slot) const { return slots_[slot]; }
  std::optional<LeaseSlot> Find(const TaskId& task) const;
  // The client's most recently added lease of this kind.
  std::optional<LeaseSlot> OfClient(const std::string& client_id, TaskKind kind = TaskKind::kTrain) const;
  // The first lease of a kind that is offered and due, in the order of adding; below, the number of these.
  std::optional<LeaseSlot> NextOffered(TaskKind kind = TaskKind::kTrain) const;
  // The same among clients that are reached through the aggregator `via`.
  std::optional<LeaseSlot> NextOffered(TaskKind kind, const std::string& via) const;
  int64_t CountOffered(TaskKind kind) const { return static_cast<int64_t>(offered_[static_cast<size_t>(kind)].size()); }
  // The leases that a site has in hand (taken, staging), in the order of adding.
  std::vector<LeaseSlot> InHandOf(const std::string& site) const;

  // The leases that have expired by `now`, earliest first; and when the next one expires (0: never).
  std::vector<LeaseSlot> Expired(TimeMs now) const;
  TimeMs next_expiry() const { return expiries_.empty() ? 0 : expiries_.begin()->first; }

  // Gives an offered or lapsed lease to `site`.
  void Take(LeaseSlot slot, const std::string& site);
  // Takes a lease from its site: it is offered, from its first step on, or lapsed.
  void Release(LeaseSlot slot, Lease::State state);
  void Extend(LeaseSlot slot, TimeMs expires);  // not if it is lapsed, folding or resolved
  void SetState(LeaseSlot slot, Lease::State state, std::string reason = "");
  void BeginStep(LeaseSlot slot, int step);  // it was reported; its site has it in hand again
  void MarkSummed(LeaseSlot slot);           // it was folding; it is reported
  void MarkTold(LeaseSlot slot) { slots_[slot].told_step = slots_[slot].step; }
  void MakeDue(LeaseSlot slot);
  void SetVia(LeaseSlot slot, const std::string& via);
  // Removes a lease in any state; its task cannot be found any more.
  void Remove(LeaseSlot slot);

 private:
  // Adds a lease to the indices that depend on its state, or removes it.
  void Index(LeaseSlot slot);
  void Unindex(LeaseSlot slot);

  std::vector<Lease> slots_;
  std::vector<uint64_t> order_;  // in which each slot was added
  std::vector<LeaseSlot> free_;
  uint64_t added_ = 0;
  std::unordered_map<TaskId, LeaseSlot> by_task_;
  std::array<std::unordered_map<std::string, LeaseSlot>, kTaskKinds> by_client_;
  std::array<std::map<uint64_t, LeaseSlot>, kTaskKinds> offered_;  // and due; by order
  std::array<std::unordered_map<std::string, std::map<uint64_t, LeaseSlot>>, kTaskKinds> offered_via_;  // by aggregator
  std::unordered_map<std::string, std::map<uint64_t, LeaseSlot>> in_hand_;  // by site, by order
  std::set<std::pair<TimeMs, LeaseSlot>> expiries_;                         // of leases that expire
};

}  // namespace rivulet
