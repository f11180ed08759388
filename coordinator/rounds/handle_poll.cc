// Polls for tasks, and their answers: each site's own leases, or as many new ones as there is room for.
#include <algorithm>

#include "coordinator/rounds/run_machine.h"

namespace rivulet {
namespace {

using State = Lease::State;

}  // namespace

void RunMachine::Handle(const Polled& event, TimeMs now, Actions& actions) {
  Handle(SitePolled{event.client_id}, now, actions);
}

// The site's report is handled before its answer: the last held lease may be the one that the attempt waits for.
void RunMachine::Handle(const SitePolled& event, TimeMs now, Actions& actions) {
  const bool itself = event.serves == SitePolled::Serves::kItself;
  const bool aggregator = event.serves == SitePolled::Serves::kNames;
  if (over()) {
    const std::string why = phase_ == Phase::kFinished
                                ? fmt::format("the run has finished after round {}", committed_round_)
                            : phase_ == Phase::kFailed ? "the run has failed: " + reason_
                                                       : "the run was stopped: " + reason_;
    actions.push_back(Refuse{event.site, "", Refuse::Why::kOver, why});
    return;
  }
  if (itself && !knows(event.site)) {
    actions.push_back(
        Refuse{event.site, "", Refuse::Why::kUnknown, fmt::format("client '{}' has not joined this run", event.site)});
    return;
  }
  if (itself) {
    presence_.Saw(event.site, now);
  } else if (aggregator) {
    for (const std::string& client_id : event.names)
      if (knows(client_id)) presence_.Saw(client_id, now);
  } else {
    const bool fresh = !presence_.seen_sites().contains(event.site);
    presence_.SawSite(event.site, now);
    if (fresh) OfferLapsed(now);
  }
  OpenNext(now, actions);

  Named named;
  std::set<TaskKind> holds_more;
  for (const SitePolled::Holding& holding : event.working_on) {
    const auto slot = book_.Find(holding.task);
    const bool of_site = slot && (itself ? book_.at(*slot).client_id : book_.at(*slot).via) == event.site;
    if (of_site && (itself || aggregator) && (MayComeBack(book_.at(*slot)) || IsStillHad(book_.at(*slot)))) {
      Take(*slot, event.site, now);
    }
    if (!slot || book_.at(*slot).resolved() || book_.at(*slot).site != event.site) {
      actions.push_back(Cancel{holding.task});
      continue;
    }
    const Lease& lease = book_.at(*slot);
    // A site that lists an earlier step has not received the next one yet.
    (holding.step == lease.step ? named.same_step : named.behind).insert(*slot);
    Extend(*slot, now);
    if (holding.held && !itself && lease.state == State::kTaken && lease.step == holding.step &&
        Of(lease).buffer.at_sum_step()) {
      holds_more.insert(lease.kind);
      SetState(*slot, State::kHeld);
    } else if (aggregator && !holding.held && lease.state == State::kHeld) {
      UpdateBuffer& buffer = Of(lease).buffer;
      SetState(*slot, State::kTaken);
      if (buffer.state() == UpdateBuffer::State::kClosing) buffer.Reopen();
    }
  }
  size_t answers = actions.size();
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    Gathering* const open = Open(kind);
    if (open == nullptr) continue;
    // If they were asked before, this answer repeats it. Otherwise this report may end the wait for others.
    if (open->buffer.state() == UpdateBuffer::State::kClosing) AskHolders(*open, &event.site, actions);
    if (holds_more.contains(kind)) Judge(*open, now, actions);
  }
  GiveLeases(event, named, now, actions);
  for (; answers < actions.size(); ++answers) {
    const auto* asked = std::get_if<HandOverPartial>(&actions[answers]);
    if (std::holds_alternative<Offer>(actions[answers]) || (asked != nullptr && asked->site == event.site)) return;
  }
  const int64_t pace = PollIntervals::WaitFor(itself || aggregator ? known_clients() : presence_.sites());
  actions.push_back(AskToWait{event.site, Awaited(now), named.same_step.empty() ? pace : heartbeat_ms()});
}

// First the leases that the site has lost track of, or whose next step has begun; these do not count against `want`.
// Then new ones, as many as the buffers have room for. A client that polls directly trains first, because a version
// waits for that. A site of many clients is given both kinds in any case, an evaluation first: its version is older,
// and its model is kept for it.
void RunMachine::GiveLeases(const SitePolled& poll, const Named& named, TimeMs now, Actions& actions) {
  if (poll.serves == SitePolled::Serves::kNames) return GiveLeasesOfAggregator(poll, named, now, actions);
  int64_t want = poll.want;
  const auto give = [&](LeaseSlot slot) {
    actions.push_back(OfferOf(slot, true));
    --want;
  };
  // An interrupted upload: its client may need the task again to finish it.
  for (const LeaseSlot slot : book_.InHandOf(poll.site)) {
    const bool next_step = named.behind.contains(slot);
    if ((want > 0 || next_step) && !named.same_step.contains(slot) && Open(book_.at(slot))) {
      Extend(slot, now);
      give(slot);
      if (next_step) ++want;
    }
  }
  if (poll.serves == SitePolled::Serves::kItself) {
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const auto slot = Open(kind) != nullptr ? book_.OfClient(poll.site, kind) : std::nullopt;
      if (want > 0 && slot && book_.at(*slot).due &&
          (book_.at(*slot).state == State::kOffered || MayComeBack(book_.at(*slot)))) {
        Take(*slot, poll.site, now);
        give(*slot);
      }
    }
    return;
  }
  int64_t offered = 0;
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    if (Open(kind) != nullptr) offered += book_.CountOffered(kind);
  }
  int64_t share = PollIntervals::FairShare(want, offered, presence_.sites());
  for (const TaskKind kind : {TaskKind::kEvaluate, TaskKind::kTrain}) {
    const Gathering* const open = Open(kind);
    if (open == nullptr) continue;
    for (int64_t left = std::min(share, open->buffer.Room()); left > 0; --left, --share) {
      const auto slot = book_.NextOffered(kind);
      if (!slot) break;
      Take(*slot, poll.site, now);
      give(*slot);
    }
  }
}

// Each lease is given as if its client had polled itself; but new ones only while there is room, because the
// aggregator's partial sum is taken as a whole.
void RunMachine::GiveLeasesOfAggregator(const SitePolled& poll, const Named& named, TimeMs now, Actions& actions) {
  int64_t want = poll.want;
  const auto give = [&](LeaseSlot slot) {
    actions.push_back(OfferOf(slot, true));
    book_.MarkTold(slot);
    --want;
  };
  // Its clients wait for their next step, whether this poll names them or not.
  for (const LeaseSlot slot : book_.InHandOf(poll.site)) {
    const Lease& lease = book_.at(slot);
    const bool told = lease.told_step == lease.step && !named.behind.contains(slot);
    if (told || named.same_step.contains(slot) || !Open(lease)) continue;
    Extend(slot, now);
    give(slot);
    ++want;
  }
  for (const std::string& client_id : poll.names) {
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const auto slot = Open(kind) != nullptr ? book_.OfClient(client_id, kind) : std::nullopt;
      if (want <= 0 || !slot || book_.at(*slot).via != poll.site || named.same_step.contains(*slot)) continue;
      const Lease& lease = book_.at(*slot);
      // Clients that have answered a step still wait for the next one.
      if (lease.site == poll.site && (lease.in_hand() || lease.state == State::kReported)) {
        Extend(*slot, now);
        give(*slot);
      } else if (MayComeBack(lease)) {
        Take(*slot, poll.site, now);
        give(*slot);
      }
    }
  }
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const Gathering* const open = Open(kind);
    for (int64_t room = open == nullptr ? 0 : open->buffer.Room(); room > 0 && want > 0; --room) {
      const auto slot = book_.NextOffered(kind, poll.site);
      if (!slot) break;
      Take(*slot, poll.site, now);
      give(*slot);
    }
  }
}

bool RunMachine::MayComeBack(const Lease& lease) const {
  const Gathering* const of = lease.state == State::kLapsed ? Open(lease.kind) : nullptr;
  return of != nullptr && of->buffer.state() == UpdateBuffer::State::kOpen && of->buffer.Room() > 0;
}

// After a restart a task is offered again although a site still has it. A site that lists it keeps it, with any update
// that it holds. The machine's caller decides which sites to believe.
bool RunMachine::IsStillHad(const Lease& lease) const {
  const Gathering* const of = lease.state == State::kOffered && lease.due ? Open(lease.kind) : nullptr;
  return of != nullptr && of->buffer.state() == UpdateBuffer::State::kOpen && of->buffer.Room() > 0;
}

}  // namespace rivulet
