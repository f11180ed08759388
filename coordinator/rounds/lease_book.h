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

using TimeMs = int64_t;  // of the caller's clock; only differences matter
// Of a simulation's clock, since the run began: microseconds where devices take time (fleet.h), else of no unit.
using VirtualTime = int64_t;

// One client's task: what it works on and where that stands.
struct Lease {
  enum class State : uint8_t {
    kOffered,   // drawn; its client has not asked yet
    kTaken,     // its client has the task
    kStaging,   // its upload has begun
    kHeld,      // its site has folded it into a partial of its own, and keeps that until it is asked to hand it over
    kFolding,   // its update is being folded; no deadline reaches it any more
    kReported,  // its step is done, and the next one begins for all together
    kLapsed,    // its client was not heard of for a lease; it has the task again as soon as it is
    kFolded,
    kRefused,
    kDropped,
    kFailed,  // resolved
  };
  static constexpr size_t kStates = 11;
  TaskId task;
  std::string client_id;
  std::string site;  // who polled for it and has it: its client, or a site that serves it; "" while it is offered
  std::string via;   // the aggregator it is reached through; "" for none
  TaskKind kind = TaskKind::kTrain;
  int64_t base_round = 0;  // the version that it starts from, or measures
  uint16_t ordinal = 0;    // of this client's lease of this kind at this base version
  int step = 0;
  int told_step = 0;  // the last one that its aggregator was given
  State state = State::kOffered;
  TimeMs expires = 0;  // when it lapses unless its site is heard of; 0: never
  std::string reason;  // of refused, dropped, failed
  // Where arrivals follow a virtual clock: the time of this one, and whether it has come, so that a site may have it.
  VirtualTime arrives = 0;
  bool due = true;
  bool lost = false;  // its device will be gone: at `arrives` nothing comes, and that is noticed
  // Its update is in the sum, and it has steps behind that: however it ends now, it is folded.
  bool summed = false;
  bool resolved() const { return state >= State::kFolded; }
  // A site polls for the client, which never asks itself.
  bool served_by_another() const { return !site.empty() && site != client_id; }
  bool in_hand() const { return state == State::kTaken || state == State::kStaging; }
  // Its site serves other names too, so that it may be in a partial by now, although the site has not said so.
  bool promised() const { return in_hand() && site != client_id; }
  bool operator==(const Lease&) const = default;
};
std::string_view Name(Lease::State state);  // "offered" … "failed"

using LeaseSlot = uint32_t;  // names a lease until it is removed

class LeaseBook {
 public:
  // In any state, behind all that are there. Its task's name must be new.
  LeaseSlot Add(Lease lease);
  // The reference is good until the next Add.
  const Lease& at(LeaseSlot slot) const { return slots_[slot]; }
  std::optional<LeaseSlot> Find(const TaskId& task) const;
  // This client's lease of a kind, the one that was added last.
  std::optional<LeaseSlot> OfClient(const std::string& client_id, TaskKind kind = TaskKind::kTrain) const;
  // The first of a kind that is offered and due, in the order in which they were added, and how many there are.
  std::optional<LeaseSlot> NextOffered(TaskKind kind = TaskKind::kTrain) const;
  // The same of those that are reached through the aggregator `via`.
  std::optional<LeaseSlot> NextOffered(TaskKind kind, const std::string& via) const;
  int64_t CountOffered(TaskKind kind) const { return static_cast<int64_t>(offered_[static_cast<size_t>(kind)].size()); }
  // What a site has in hand (taken, staging), in the order in which it was added.
  std::vector<LeaseSlot> InHandOf(const std::string& site) const;

  // Those that lapse first, as far as their time has come, and when the next one does (0: never).
  std::vector<LeaseSlot> Expired(TimeMs now) const;
  TimeMs next_expiry() const { return expiries_.empty() ? 0 : expiries_.begin()->first; }

  // Offered or lapsed before, now taken by `site`.
  void Take(LeaseSlot slot, const std::string& site);
  // Its site has it no longer: offered, from its first step on, or lapsed.
  void Release(LeaseSlot slot, Lease::State state);
  void Extend(LeaseSlot slot, TimeMs expires);  // of one that is neither lapsed, being folded, nor resolved
  void SetState(LeaseSlot slot, Lease::State state, std::string reason = "");
  void BeginStep(LeaseSlot slot, int step);  // reported before, now in its site's hands again
  void MarkSummed(LeaseSlot slot);           // being folded before, now reported
  void MarkTold(LeaseSlot slot) { slots_[slot].told_step = slots_[slot].step; }
  void MakeDue(LeaseSlot slot);
  void SetVia(LeaseSlot slot, const std::string& via);
  // Forgets a lease in any state; its task may be asked for no more.
  void Remove(LeaseSlot slot);

 private:
  // Enters a lease in what is derived from its state, or takes it out.
  void Index(LeaseSlot slot);
  void Unindex(LeaseSlot slot);

  std::vector<Lease> slots_;
  std::vector<uint64_t> order_;  // of adding, of each slot
  std::vector<LeaseSlot> free_;
  uint64_t added_ = 0;
  std::unordered_map<TaskId, LeaseSlot> by_task_;
  std::array<std::unordered_map<std::string, LeaseSlot>, kTaskKinds> by_client_;
  std::array<std::map<uint64_t, LeaseSlot>, kTaskKinds> offered_;  // and due; by order
  std::array<std::unordered_map<std::string, std::map<uint64_t, LeaseSlot>>, kTaskKinds> offered_via_;  // by aggregator
  std::unordered_map<std::string, std::map<uint64_t, LeaseSlot>> in_hand_;  // by site, by order
  std::set<std::pair<TimeMs, LeaseSlot>> expiries_;                         // of those that lapse
};

}  // namespace rivulet
