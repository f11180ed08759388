// Buffer of the updates towards one model version, or of the reports of one evaluation: their number, the wanted
// number, and the condition of closing. Pure.
//
//   Open ──→ Closing ──→ Closed      closing: only partial sums at sites are missing, and were requested
//        ←──                         too few updates, and a silent client may come back
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/rounds/lease_book.h"

namespace rivulet {

struct BufferRules {
  int64_t in_flight = 1;  // leases that are open for it or aggregated, at most
  int64_t wanted = 1;     // aggregated updates that complete it; never more
  int64_t least = 0;  // that suffice for a version at its deadline, or when nothing is awaited any more; 0: as many as
                      // are wanted of the clients that were asked
  TimeMs deadline = 0;  // 0: none
  // Tasks may have steps, as in secure aggregation, where each step needs all results of the previous one. A barrier
  // stands behind every step but the last. The next step begins for the clients that have reported, when there are
  // `threshold` of them (0: when no other is awaited) and `least`, or at the barrier's own deadline with `least`.
  // Clients that have not reported by then are out; after the first barrier none can be replaced.
  struct Barrier {
    int64_t threshold = 0;
    int64_t deadline_ms = 0;  // of its step; 0: only the buffer's
  };
  std::vector<Barrier> barriers;
  // The step whose answers are aggregated; -1: the last. Behind its barrier the set of updates is fixed: later steps
  // supply the shares that the sum needs, and a lease that is lost there still counts as aggregated. The buffer then
  // closes when it is settled from outside, since only the protocol knows how many answers suffice.
  int sum_step = -1;
  // Its leases outlive it: open ones continue towards the next buffer when it closes. Then `in_flight` leases are open
  // at a time, besides aggregated ones, and no open lease is ever needless. Without deadline or barriers.
  bool continuous = false;
  // It makes a version even without a lease, of an empty sample.
  bool may_be_empty = false;
};

// The default number of updates with which a round of so many clients makes a version: four of five, at least
// one.
int64_t DefaultMinReports(int64_t cohort);

class UpdateBuffer {
 public:
  enum class State : uint8_t { kOpen, kClosing, kClosed };
  enum class Verdict : uint8_t {
    kGoOn,      // something is awaited
    kAskFor,    // only partial sums at sites are awaited: request them. Returned once
    kNextStep,  // enough have reported the current step
    kCommit,    // it is closed, with enough updates
    kAbandon,   // it is closed, with too few
  };
  // The leases that are of no use any more.
  enum class Needless : uint8_t {
    kNone,
    kOffered,  // enough are aggregated or held: clients that have not polled are not needed
    kOpen,     // enough are aggregated
  };

  explicit UpdateBuffer(BufferRules rules, State state = State::kOpen, bool asked_last = false)
      : rules_(std::move(rules)), state_(state), asked_last_(asked_last) {}
  State state() const { return state_; }
  bool asked_last() const { return asked_last_; }
  TimeMs deadline() const { return rules_.deadline; }  // of the whole buffer
  TimeMs next_deadline() const;                        // or of its step, if earlier; 0: none
  int step() const { return step_; }
  TimeMs step_deadline() const { return step_deadline_; }
  bool at_last_step() const { return static_cast<size_t>(step_) == rules_.barriers.size(); }
  bool at_sum_step() const { return rules_.sum_step < 0 ? at_last_step() : step_ == rules_.sum_step; }
  bool past_sum() const { return rules_.sum_step >= 0 && step_ > rules_.sum_step; }
  // After the sum's step, "": the sum can be read. In any buffer with steps, else: it never will be, for `failure`.
  void Settle(std::string failure);
  const std::string& failure() const { return failure_; }
  void BeginStep(int step, TimeMs now);
  void RestoreStep(int step, TimeMs deadline);
  void Add(LeaseSlot slot, const Lease& lease);
  // Call these before and after one of its leases changes.
  void Leave(const Lease& lease) { Count(lease, -1); }
  void Enter(const Lease& lease) { Count(lease, 1); }
  const std::vector<LeaseSlot>& leases() const { return leases_; }  // in the order drawn
  int64_t CountInState(Lease::State state) const { return counts_[static_cast<size_t>(state)]; }
  int64_t folded() const { return CountInState(Lease::State::kFolded); }
  bool full() const { return folded() >= rules_.wanted; }
  int64_t held() const { return CountInState(Lease::State::kHeld); }
  int64_t least() const;
  int64_t lapsed() const { return CountInState(Lease::State::kLapsed); }
  // The number of leases that it lacks: those that ended without an update, lapsed, or were not drawn yet; in a
  // continuous buffer also those with aggregated updates.
  int64_t Missing() const;

  // The number of updates that it could take besides those it can no longer leave out: aggregated and folding ones,
  // because two that finish together must not both be the last; held ones; and those that a site of many clients has in
  // hand, because its partial sum comes as a whole.
  int64_t Room() const;
  Needless needless() const;
  // The next action after a change, once needless leases were dropped. The buffer closes when nothing is awaited any
  // more, not when enough is there, because a fold may be under way on another thread. Sites are asked for partial sums
  // when nothing else is awaited, so each sends one, and not one after every few tasks. Lapsed leases are awaited only
  // while there are too few updates without them.
  Verdict Judge();
  // At the deadline: only partial sums at sites are awaited, and until `deadline`. Once.
  void AskLast(TimeMs deadline);
  void Reopen() { state_ = State::kOpen; }  // a closing buffer whose holder's lease is offered again

 private:
  void Count(const Lease& lease, int64_t change);
  int64_t CountOut() const;  // offered, in hand or being uploaded
  Verdict JudgePastSum();

  BufferRules rules_;
  State state_;
  bool asked_last_;
  std::vector<LeaseSlot> leases_;
  std::array<int64_t, Lease::kStates> counts_{};
  int64_t promised_ = 0;
  int step_ = 0;
  TimeMs step_deadline_ = 0;
  bool settled_ = false;
  std::string failure_;
};

}  // namespace rivulet
