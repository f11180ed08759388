// Arrivals by a virtual clock: which updates come, in which order, and what becomes of the others. Nothing waits: the
// clock goes on to whatever comes next.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

constexpr VirtualTime kPoll =
    10'000'000;  // how often an idle client calls (PollIntervals::WaitFor): when it is noticed
// A version for which devices have come and gone so often will not be made.
constexpr int kMostWaits = 10'000;

std::string SecondsText(VirtualTime time) { return fmt::format("{:g} s", static_cast<double>(time) / 1e6); }

}  // namespace

// A device that goes away says nothing: what it had is given up when it has been silent for a lease.
void RunMachine::SetArrival(Lease& lease) const {
  lease.due = false;
  if (rules_.fleet == nullptr) {
    lease.arrives = virtual_now_ + std::max<VirtualTime>(rules_.task_time(lease.client_id), 1);
    return;
  }
  const Fleet::Course course = rules_.fleet->CourseOf(lease.client_id, lease.base_round, lease.ordinal, virtual_now_);
  lease.lost = course.lost;
  lease.arrives = std::max(course.ends, virtual_now_ + 1) + (course.lost ? rules_.fleet_lease : 0);
}

// What has failed is followed by the next arrival; those before it are the same, whenever that is heard of. So the
// arrivals of a version do not depend on the order in which its tasks end.
void RunMachine::LetArrive(TimeMs now, Actions& actions) {
  const UpdateBuffer& buffer = training_->buffer;
  const auto in_the_air = [&] { return static_cast<int64_t>(under_way_.size()); };
  const auto arrived = [&] {
    return std::ssize(buffer.leases()) - in_the_air() - buffer.CountInState(State::kRefused) -
           buffer.CountInState(State::kDropped) - buffer.CountInState(State::kFailed);
  };
  int waits = 0;
  while (arrived() < rules_.policy.updates_per_version) {
    if (fleet_deadline_ != 0 && virtual_now_ >= fleet_deadline_) return;
    const int64_t missing = continuous()            ? rules_.policy.in_flight - in_the_air()
                            : rules_.policy.replace ? buffer.Missing()
                                                    : 0;
    if (missing > 0) AddLeases(*training_, Draw(TaskKind::kTrain, missing, now), now, actions);
    if (under_way_.empty()) {
      // Whoever is in a round that is drawn at once was there when it began.
      if (!continuous() || !WaitForDevices(waits++)) return;
      members_.BeginDraw(DrawnAs());  // those of whom it was judged that they are away
      continue;
    }
    const auto [at, client_id, slot] = *under_way_.begin();
    if (fleet_deadline_ != 0 && at > fleet_deadline_) return LetFleetDeadlinePass();
    under_way_.erase(under_way_.begin());
    virtual_now_ = std::max(virtual_now_, at);
    if (book_.at(slot).lost) {
      SetState(slot, State::kDropped,
               fmt::format("its device disconnected and was silent for {}", SecondsText(rules_.fleet_lease)));
    } else {
      book_.MakeDue(slot);
    }
  }
}

// What has come stays; whoever would come later is out.
void RunMachine::LetFleetDeadlinePass() {
  virtual_now_ = fleet_deadline_;
  for (const LeaseSlot slot : training_->buffer.leases()) {
    if (book_.at(slot).due || book_.at(slot).resolved()) continue;
    SetState(slot, State::kDropped,
             fmt::format("no update arrived before the deadline of {}", SecondsText(rules_.fleet_deadline)));
  }
}

bool RunMachine::WaitForDevices(int waits) {
  if (rules_.fleet == nullptr || waits >= kMostWaits) return false;
  const std::optional<VirtualTime> back = rules_.fleet->NextBack(virtual_now_);
  if (!back) return false;
  virtual_now_ = std::max(*back, virtual_now_ + kPoll);
  return true;
}

}  // namespace rivulet
