// What time alone decides: deadlines, leases that lapse, and when to wake for the next of them.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

}  // namespace

void RunMachine::Handle(const Tick&, TimeMs now, Actions& actions) {
  armed_ = 0;
  if (over()) return;
  OpenNext(now, actions);
  LetLapse(now, actions);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    if (Gathering* const open = Open(kind); open != nullptr) LetDeadlinePass(*open, now, actions);
  }
}

// What sites hold at the deadline is asked for, and waited for as long as a lease lasts: it is trained and folded, and
// misses nothing but the hand-over. At the deadline of a step who has reported it goes on.
void RunMachine::LetDeadlinePass(Gathering& gathering, TimeMs now, Actions& actions) {
  UpdateBuffer& buffer = gathering.buffer;
  if (buffer.next_deadline() == 0 || now < buffer.next_deadline()) return;
  const bool all = buffer.deadline() != 0 && now >= buffer.deadline();
  // Behind the attempt's deadline no later step has time to read a sum.
  const bool in_time = !all || buffer.at_last_step();
  const bool ask = in_time && rules_.lease_ms > 0 && buffer.held() > 0 && !buffer.asked_last();
  DropOpen(gathering,
           all ? fmt::format("no update arrived before the deadline of {:g} s",
                             static_cast<double>(rules_.deadline_ms) / 1000)
               : fmt::format("step {} was not reported before its deadline", buffer.step()),
           !ask, all);
  if (ask) {
    buffer.AskLast(now + rules_.lease_ms);
    AskHolders(gathering, nullptr, actions);
  }
  Judge(gathering, now, actions);
}

// Who speaks for itself keeps its task until another update has taken its place: it may be back in a moment. What a
// site of many names had is offered to all of them again, unless only that site can know what its earlier steps were.
void RunMachine::LetLapse(TimeMs now, Actions& actions) {
  std::set<TaskKind> moved;
  for (const LeaseSlot slot : book_.Expired(now)) {
    const Lease& lease = book_.at(slot);
    const bool served = lease.served_by_another() && lease.via.empty();
    const auto site = presence_.seen_sites().find(lease.site);
    if (lease.state == State::kHeld && site != presence_.seen_sites().end() && site->second + rules_.lease_ms > now) {
      Extend(slot, site->second);  // what is held needs to be said once
    } else if (lease.state == State::kOffered && presence_.sites() > 0) {
      Extend(slot, now);  // its turn has not come
    } else {
      if (!served) presence_.Lost(lease.client_id);
      const bool again = served && lease.step == 0;
      Release(slot, again ? State::kOffered : State::kLapsed);
      if (again) Extend(slot, now);
      UpdateBuffer& buffer = Of(lease).buffer;
      if (again && buffer.state() == UpdateBuffer::State::kClosing) buffer.Reopen();
      moved.insert(lease.kind);
    }
  }
  for (const TaskKind kind : moved) {
    Gathering* const of = Open(kind);
    if (of == nullptr) continue;
    Replace(*of, now, actions);
    Judge(*of, now, actions);
  }
}

// Names that only sites work for never call themselves: a cohort that was drawn before the first site came has lapsed
// by the time it does, and would be lost to the deadline.
void RunMachine::OfferLapsed(TimeMs now) {
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const Gathering* const open = Open(kind);
    if (open == nullptr || open->buffer.lapsed() == 0 || open->buffer.state() != UpdateBuffer::State::kOpen) continue;
    for (const LeaseSlot slot : open->buffer.leases()) {
      if (book_.at(slot).state != State::kLapsed || book_.at(slot).step > 0) continue;
      Release(slot, State::kOffered);
      Extend(slot, now);
    }
  }
}

// A deadline that has passed is dealt with: what is still folding then ends when it ends.
void RunMachine::Arm(TimeMs now, Actions& actions) {
  const Gathering* const open[] = {Open(TaskKind::kTrain), Open(TaskKind::kEvaluate)};
  if (open[0] == nullptr && open[1] == nullptr) return;
  TimeMs next = book_.next_expiry();
  for (const Gathering* gathering : open) {
    if (gathering == nullptr) continue;
    const TimeMs at = gathering->buffer.next_deadline();
    if (at > now && (next == 0 || at < next)) next = at;
  }
  if (phase_ == Phase::kWaiting && not_before_ > now && (next == 0 || not_before_ < next)) next = not_before_;
  if (next == 0 || (armed_ != 0 && armed_ <= next)) return;
  armed_ = next;
  actions.push_back(WakeAt{next});
}

}  // namespace rivulet
