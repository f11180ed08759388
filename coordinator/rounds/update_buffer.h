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
  int64_t in_flight = 1;  // leases that are out for it or folded, at most
  int64_t wanted = 1;     // folded updates that make it complete; never more
  int64_t least = 0;  // with which it makes a version all the same, at its deadline or when nobody is awaited any more;
                      // 0: as many as are wanted of those who were asked
  TimeMs deadline = 0;  // 0: none
  // Tasks may have steps, as in secure aggregation, where what one step of all has brought is what the next one needs.
  // Behind all but the last stands a barrier: the next step begins for those who have reported, when there are
  // `threshold` of them (0: when nobody else is awaited) and `least`, or at the barrier's own deadline with `least`.
  // Who has not reported by then is out; and once the first barrier is behind it, nobody can be replaced.
  struct Barrier {
    int64_t threshold = 0;
    int64_t deadline_ms = 0;  // of its step; 0: none but the buffer's
  };
  std::vector<Barrier> barriers;
  // The step whose answers are folded; -1: the last. Behind its barrier the set of updates is fixed: later steps bring
  // what the sum needs to be read, and a lease that is lost there is folded all the same. The buffer then closes when
  // it is settled from outside, as only the protocol knows what is enough.
  int sum_step = -1;
  // Its leases outlive it: what is out when it closes goes on towards the next one. Then `in_flight` are out at a time,
  // whatever is folded already, and nothing that is out is ever needless. Without deadline or barriers.
  bool continuous = false;
  // Without a single lease it makes a version too: of a sample that has nobody.
  bool may_be_empty = false;
};

// With how many updates a round of so many clients makes a version where nobody says another number: four of five, at
// least one.
int64_t DefaultMinReports(int64_t cohort);

class UpdateBuffer {
 public:
  enum class State : uint8_t { kOpen, kClosing, kClosed };
  enum class Verdict : uint8_t {
    kGoOn,      // something is awaited
    kAskFor,    // nothing is but what sites hold: they are to hand it over. Said once
    kNextStep,  // enough have reported the step that it is at
    kCommit,    // it is closed, with enough
    kAbandon,   // it is closed, with too little
  };
  // Which of its leases are of no use any more.
  enum class Needless : uint8_t {
    kNone,
    kOffered,  // enough are folded or held: whoever has not asked yet is not needed
    kOpen,     // enough are folded
  };

  explicit UpdateBuffer(BufferRules rules, State state = State::kOpen, bool asked_last = false)
      : rules_(std::move(rules)), state_(state), asked_last_(asked_last) {}
  State state() const { return state_; }
  bool asked_last() const { return asked_last_; }
  TimeMs deadline() const { return rules_.deadline; }  // of all of it
  TimeMs next_deadline() const;                        // or of its step, if that is earlier; 0: none
  int step() const { return step_; }
  TimeMs step_deadline() const { return step_deadline_; }
  bool at_last_step() const { return static_cast<size_t>(step_) == rules_.barriers.size(); }
  bool at_sum_step() const { return rules_.sum_step < 0 ? at_last_step() : step_ == rules_.sum_step; }
  bool past_sum() const { return rules_.sum_step >= 0 && step_ > rules_.sum_step; }
  // Of one that is past its sum's step: the sum can be read. Of any with steps: it never will be, for `failure`.
  void Settle(std::string failure);
  const std::string& failure() const { return failure_; }
  void BeginStep(int step, TimeMs now);
  void RestoreStep(int step, TimeMs deadline);
  void Add(LeaseSlot slot, const Lease& lease);
  // One of its leases is about to change, and has changed.
  void Leave(const Lease& lease) { Count(lease, -1); }
  void Enter(const Lease& lease) { Count(lease, 1); }
  const std::vector<LeaseSlot>& leases() const { return leases_; }  // in the order drawn
  int64_t CountInState(Lease::State state) const { return counts_[static_cast<size_t>(state)]; }
  int64_t folded() const { return CountInState(Lease::State::kFolded); }
  bool full() const { return folded() >= rules_.wanted; }
  int64_t held() const { return CountInState(Lease::State::kHeld); }
  int64_t least() const;
  int64_t lapsed() const { return CountInState(Lease::State::kLapsed); }
  // Leases that it lacks: of those that were to be out, the ones that ended without an update, lapsed, or were not
  // drawn yet; of a continuous one also those whose update is folded.
  int64_t Missing() const;

  // How many updates it could take beside all that can no longer be left out: those that are folded, and being folded,
  // as two that finish together must not both be the last; those that are held; and those that a site of many names has
  // in hand, as what it folds comes as one.
  int64_t Room() const;
  Needless needless() const;
  // What is to be done now that something has moved, when what is needless was dropped. It closes when nobody is
  // awaited any more, and not when enough is there, because a fold may be under way on another thread. Sites that hold
  // partials are asked for them when nothing else is awaited: each brings one, and not one after every few tasks.
  // Lapsed leases are awaited only while there are too few updates without them.
  Verdict Judge();
  // At the deadline: nothing is awaited but what sites hold, and that until `deadline`. Once.
  void AskLast(TimeMs deadline);
  void Reopen() { state_ = State::kOpen; }  // of a closing one: a lease of a site that held it is offered again

 private:
  void Count(const Lease& lease, int64_t change);
  int64_t CountOut() const;  // that are offered, in hand or being uploaded
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
