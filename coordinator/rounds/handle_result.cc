// Results of tasks: uploads, folds, sites' partial sums, failures, and lost sites.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

}  // namespace

void RunMachine::Handle(const StepReported& event, TimeMs now, Actions& actions) {
  const auto refuse = [&](Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.client_id, event.task, why, std::move(reason)});
  };
  const auto slot = book_.Find(event.task);
  const Lease* lease = slot ? &book_.at(*slot) : nullptr;
  if (lease == nullptr || event.client_id != (lease->site.empty() ? lease->client_id : lease->site)) {
    return refuse(Refuse::Why::kUnknown, fmt::format("client '{}' has no task '{}'", event.client_id, event.task));
  }
  Heard(*slot, now);
  if (lease->state == State::kFolded) return refuse(Refuse::Why::kDuplicate, "this update is folded already");
  if (lease->state == State::kFolding) return refuse(Refuse::Why::kBusy, "this update is being folded; ask again");
  if (lease->resolved()) return refuse(Refuse::Why::kLate, lease->reason);
  if (!Open(*lease)) return refuse(Refuse::Why::kLate, "the run has ended");
  if (event.step > lease->step) {
    return refuse(Refuse::Why::kUnknown, fmt::format("task '{}' is at step {}", event.task, lease->step));
  }
  if (!event.failed && (event.step < lease->step || lease->state == State::kReported)) {
    return refuse(Refuse::Why::kDuplicate, fmt::format("step {} of this task is reported already", event.step));
  }
  if (lease->state == State::kHeld && !event.failed) {
    return refuse(Refuse::Why::kDuplicate, "this update is in its site's partial sum already");
  }
  if (event.failed) {
    Gathering& of = Of(*lease);
    SetState(*slot, State::kFailed, event.reason.empty() ? "it gave no reason" : event.reason);
    Replace(of, now, actions);
    Judge(of, now, actions);
    return;
  }
  if (lease->state == State::kOffered || lease->state == State::kLapsed) Take(*slot, event.client_id, now);
  SetState(*slot, State::kStaging);
  actions.push_back(Stage{event.task});
}

// Staging and checking took time, in which the round may have closed or filled. The present state decides.
void RunMachine::Handle(const StageDone& event, TimeMs now, Actions& actions) {
  const auto slot = book_.Find(event.task);
  const Lease* lease = slot ? &book_.at(*slot) : nullptr;
  if (slot) Heard(*slot, now);
  // Its upload has arrived, although its client sent no heartbeat.
  if (lease != nullptr && Open(*lease) && lease->state == State::kLapsed) {
    Take(*slot, lease->client_id, now);
    SetState(*slot, State::kStaging);
  }
  if (lease == nullptr || !Open(*lease) || lease->state != State::kStaging) {
    const bool folded = lease != nullptr && (lease->state == State::kFolded || lease->state == State::kFolding);
    actions.push_back(Refuse{lease == nullptr ? "" : lease->client_id, event.task,
                             folded ? Refuse::Why::kDuplicate : Refuse::Why::kLate,
                             folded                                   ? "this update is folded already"
                             : lease == nullptr || !lease->resolved() ? "the run has ended"
                                                                      : lease->reason});
    return;
  }
  Gathering& of = Of(*lease);
  if (!event.ok) {
    SetState(*slot, State::kRefused, event.reason);
    Replace(of, now, actions);
    return Judge(of, now, actions);
  }
  if (!of.buffer.at_sum_step()) {
    const bool ends = of.buffer.past_sum() && of.buffer.at_last_step();
    SetState(*slot, ends ? State::kFolded : State::kReported);
    return Judge(of, now, actions);
  }
  const bool room = of.buffer.Room() + (lease->promised() ? 1 : 0) > 0;
  if (!room && of.kind == TaskKind::kTrain && continuous()) {
    SetState(*slot, State::kTaken);
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kBusy,
                             fmt::format("round {} is full and being committed; ask again", of.version)});
    return;
  }
  if (!room) {
    SetState(*slot, State::kDropped, EnoughWithout(of.kind));
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kLate, lease->reason});
    return Judge(of, now, actions);
  }
  SetState(*slot, State::kFolding);
  actions.push_back(Fold{event.task});
}

void RunMachine::Handle(const FoldDone& event, TimeMs now, Actions& actions) {
  Handle(Merged{{event.task}, event.ok, event.reason}, now, actions);
}

// A partial sum is taken as a whole or not at all, because nothing can be subtracted from it. After a refusal its
// leases are as before: a site that cannot send their updates otherwise reports them as failed.
void RunMachine::Handle(const PartialReported& event, TimeMs now, Actions& actions) {
  const auto refuse = [&](const TaskId& task, Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.site, task, why, std::move(reason)});
  };
  if (event.tasks.empty()) {
    return refuse("", Refuse::Why::kUnknown, fmt::format("site '{}' submits a partial sum of no task", event.site));
  }
  std::vector<LeaseSlot> slots;
  slots.reserve(event.tasks.size());
  int64_t counted = 0;  // leases that Room() counts already
  for (const TaskId& task : event.tasks) {
    const auto slot = book_.Find(task);
    if (event.kept && slot && Open(book_.at(*slot)) && book_.at(*slot).state == State::kOffered) {
      Take(*slot, event.site, now);
    }
    if (!slot || book_.at(*slot).site != event.site) {
      return refuse(task, Refuse::Why::kUnknown, fmt::format("site '{}' has no task '{}'", event.site, task));
    }
    const Lease& lease = book_.at(*slot);
    if (lease.state == State::kFolded) return refuse(task, Refuse::Why::kDuplicate, "this update is folded already");
    if (lease.state == State::kFolding || lease.state == State::kStaging) {
      return refuse(task, Refuse::Why::kBusy, "this update is being folded; ask again");
    }
    if (lease.resolved()) return refuse(task, Refuse::Why::kLate, lease.reason);
    const Lease& first = book_.at(slots.empty() ? *slot : slots[0]);
    if (lease.kind != first.kind || lease.base_round != first.base_round) {
      return refuse(task, Refuse::Why::kUnknown,
                    fmt::format("task '{}' is of another {} than the first one", task,
                                lease.kind != first.kind ? "kind" : "base version"));
    }
    // The site sent it again because it got no answer, possibly after the next step began.
    const bool summed = lease.state == State::kReported || (Open(lease) && lease.summed);
    if (summed) return refuse(task, Refuse::Why::kDuplicate, "its words are in the sum");
    if (Open(lease) && !Of(lease).buffer.at_sum_step()) {
      return refuse(task, Refuse::Why::kUnknown, fmt::format("task '{}' is not at the step of its sum", task));
    }
    if (lease.state == State::kHeld || lease.promised()) ++counted;
    slots.push_back(*slot);
  }
  std::vector<LeaseSlot> sorted = slots;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    const TaskId& task = book_.at(*twice).task;
    return refuse(task, Refuse::Why::kUnknown, fmt::format("a partial sum names task '{}' twice", task));
  }
  Gathering* const of = Open(book_.at(slots[0]).kind);
  if (of == nullptr) return refuse(event.tasks[0], Refuse::Why::kLate, "the run has ended");
  // Affects a client's own partial sum alone: a site of many clients was given no more tasks than there is room for.
  if (of->buffer.Room() + counted < static_cast<int64_t>(slots.size())) {
    for (const LeaseSlot slot : slots) SetState(slot, State::kDropped, EnoughWithout(of->kind));
    refuse(event.tasks[0], Refuse::Why::kLate, EnoughWithout(of->kind));
    return Judge(*of, now, actions);
  }
  actions.reserve(actions.size() + slots.size());
  for (const LeaseSlot slot : slots) {
    SetState(slot, State::kFolding);
    actions.push_back(Fold{book_.at(slot).task});
  }
}

void RunMachine::Handle(const Merged& event, TimeMs now, Actions& actions) {
  std::set<TaskKind> moved;
  for (const TaskId& task : event.tasks) {
    const auto slot = book_.Find(task);
    if (!slot || book_.at(*slot).state != State::kFolding) continue;
    Heard(*slot, now);
    const Lease& lease = book_.at(*slot);
    UpdateBuffer& buffer = Of(lease).buffer;
    if (event.ok && !buffer.at_last_step()) {
      buffer.Leave(lease);
      book_.MarkSummed(*slot);
      buffer.Enter(lease);
    } else {
      SetState(*slot, event.ok ? State::kFolded : State::kRefused, event.ok ? "" : event.reason);
    }
    moved.insert(book_.at(*slot).kind);
  }
  for (const TaskKind kind : moved) {
    Gathering* const of = Open(kind);
    if (of == nullptr) continue;
    // If leases outlive versions, each ended lease makes room for another, however it ended.
    const bool of_latest = kind == TaskKind::kTrain && continuous();
    // Sites were asked for partial sums because no more leases could be open, or no candidates were left. All have
    // arrived now, and their clients can be asked again.
    const bool closing = of->buffer.state() == UpdateBuffer::State::kClosing;
    if (of_latest && !ordered() && closing && of->buffer.held() == 0 && !of->buffer.full()) of->buffer.Reopen();
    const bool ended = !event.ok || (of_latest && !of->buffer.full());
    if (ended) Replace(*of, now, actions);
    Judge(*of, now, actions);
  }
}

void RunMachine::Handle(const SumSettled& event, TimeMs now, Actions& actions) {
  const bool trains = event.kind == TaskKind::kTrain;
  Gathering* const open = trains && phase_ != Phase::kTraining ? nullptr : Open(event.kind);
  if (open == nullptr || rules_.barriers.empty() || (event.ok && !open->buffer.past_sum())) return;
  open->buffer.Settle(event.ok ? "" : event.reason.empty() ? "the sum cannot be read" : event.reason);
  Judge(*open, now, actions);
}

// A single task's upload under way continues: it is in no partial sum. After a barrier no other site has the state of
// the earlier steps.
void RunMachine::Handle(const SiteLost& event, TimeMs now, Actions& actions) {
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    Gathering* const open = Open(kind);
    if (open == nullptr) continue;
    bool moved = false;
    for (const LeaseSlot slot : open->buffer.leases()) {
      const Lease& lease = book_.at(slot);
      const bool has = lease.state == State::kTaken || lease.state == State::kHeld;
      if (!has || lease.site != event.site || !lease.served_by_another()) continue;
      const bool again = lease.step == 0;
      Release(slot, again ? State::kOffered : State::kLapsed);
      if (again) Extend(slot, now);
      moved = true;
    }
    if (!moved) continue;
    if (open->buffer.state() == UpdateBuffer::State::kClosing) open->buffer.Reopen();
    Judge(*open, now, actions);
  }
}

}  // namespace rivulet
