// Decisions by time alone: deadlines, lapsing leases, and the next wake.
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

// At the deadline, sites are asked for their partial sums, and awaited for one lease: their updates are trained and
// aggregated and lack only the transfer. At a step's deadline, clients that have reported it continue.
void RunMachine::LetDeadlinePass(Gathering& gathering, TimeMs now, Actions& actions) {
  UpdateBuffer& buffer = gathering.buffer;
  if (buffer.next_deadline() == 0 || now < buffer.next_deadline()) return;
  const bool all = buffer.deadline() != 0 && now >= buffer.deadline();
  // After the attempt's deadline no later step has time to read a sum.
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

// A client that polls directly keeps its task until another update has replaced it: it may return soon. A lapsed lease
// of a site of many clients is offered to all sites again, unless only that site has the state of earlier steps.
void RunMachine::LetLapse(TimeMs now, Actions& actions) {
  std::set<TaskKind> moved;
  for (const LeaseSlot slot : book_.Expired(now)) {
    const Lease& lease = book_.at(slot);
    const bool served = lease.served_by_another() && lease.via.empty();
    const auto site = presence_.seen_sites().find(lease.site);
    if (lease.state == State::kHeld && site != presence_.seen_sites().end() && site->second + rules_.lease_ms > now) {
      Extend(slot, site->second);  // a held task is listed once
    } else if (lease.state == State::kOffered && presence_.sites() > 0) {
      Extend(slot, now);  // it is not due yet
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

// Clients that are served by sites never poll themselves. A cohort that was drawn before the first site came has lapsed
// by then, and would otherwise be lost at the deadline.
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

// A deadline that has passed needs no wake: folds that still run end in their own time.
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
