// Arrivals by a virtual clock: which updates arrive, in which order, and the fate of the others. Nothing waits: the
// clock moves on to the next event.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

constexpr VirtualTime kPoll =
    10'000'000;  // an idle client's poll interval (PollIntervals::WaitFor): when it is noticed
// A version that devices did not complete in so many waits will not be made.
constexpr int kMostWaits = 10'000;

std::string SecondsText(VirtualTime time) { return fmt::format("{:g} s", static_cast<double>(time) / 1e6); }

}  // namespace

// A lost device sends no message: its task is dropped after a lease of silence.
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

// A failed task is followed by the next arrival; those before it stay the same, whenever the failure is reported. So
// the arrivals of a version do not depend on the order in which its tasks end.
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
      // In a round that is drawn at once, all clients were present when it began.
      if (!continuous() || !WaitForDevices(waits++)) return;
      members_.BeginDraw(DrawnAs());  // for the devices that were judged absent
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

// Arrived updates stay; later ones are dropped.
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
