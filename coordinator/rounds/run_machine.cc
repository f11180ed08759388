#include "coordinator/rounds/run_machine.h"

#include <algorithm>

namespace rivulet {
namespace {

using State = Lease::State;

constexpr int64_t kMaxRounds = (int64_t{1} << 32) - 1;  // a round is a word of the random counter
constexpr int64_t kMaxOrdinals = 65536;                 // an ordinal is 16 bits of it

const char* Enough(TaskKind kind) {
  return kind == TaskKind::kTrain ? "the round had enough updates without it"
                                  : "the evaluation had enough reports without it";
}

// Why updates are missing, for a run that cannot go on: one client's own words and how many more there are. All of them
// are in the history.
std::string Complaints(const std::vector<Lease>& leases) {
  std::string text;
  int more = 0;
  for (const Lease& lease : leases) {
    if (lease.state == State::kFolded || lease.reason.empty()) continue;
    if (text.empty()) {
      text = fmt::format("client '{}' {}: {}", lease.client_id, Name(lease.state), lease.reason);
    } else {
      ++more;
    }
  }
  if (more > 0) text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace

// Every limit that the machine relies on is checked here and by the name of the key that sets it, so that Handle never
// meets a dial that cannot work.
StatusOr<RunMachine> RunMachine::Create(RunRules rules, RunStart start) {
  const RunDial& dial = rules.dial;
  if (rules.run_id.empty()) return InvalidArgument("a run needs an id");
  if (rules.rounds < 1 || rules.rounds > kMaxRounds) {
    return InvalidArgument("run.rounds is {}; it must be 1 to {}", rules.rounds, kMaxRounds);
  }
  if (dial.in_flight < 1)
    return InvalidArgument("server.clients_per_round is {}; it must be at least 1", dial.in_flight);
  if (dial.updates_per_version < 1) {
    return InvalidArgument("a model version of {} updates is none; it must be at least 1", dial.updates_per_version);
  }
  const bool latest = dial.base_policy == RunDial::BasePolicy::kLatest;
  if (dial.max_staleness < 0 || (dial.max_staleness != 0 && !latest)) {
    return InvalidArgument(
        "max_staleness is {}; {}", dial.max_staleness,
        latest ? "it must be 0 or more" : "leases that start from the last committed version are never stale");
  }
  if (latest && rules.selector != nullptr && rules.selector->remembers()) {
    return InvalidArgument(
        "a selection by what earlier versions' clients said wants server.base = \"committed\": where tasks outlive "
        "versions, clients are drawn before it is known; take selection.name = \"uniform\"");
  }
  if (latest && !rules.barriers.empty()) {
    return InvalidArgument("tasks of {} steps cannot outlive a version: their steps are taken together",
                           rules.barriers.size() + 1);
  }
  const int64_t most = latest ? dial.updates_per_version : std::min(dial.in_flight, dial.updates_per_version);
  if (rules.min_reports < 0 || rules.min_reports > most) {
    return InvalidArgument("server.min_reports is {}; it must be 0 (all) to {}, what a round can get",
                           rules.min_reports, most);
  }
  if (rules.min_clients < 0)
    return InvalidArgument("server.min_clients is {}; it must not be negative", rules.min_clients);
  if (rules.deadline_ms < 0)
    return InvalidArgument("server.deadline is {} ms; it must not be negative", rules.deadline_ms);
  if (rules.max_attempts < 0)
    return InvalidArgument("server.max_attempts is {}; it must not be negative", rules.max_attempts);
  if (rules.lease_ms < 0) return InvalidArgument("server.lease is {} ms; it must not be negative", rules.lease_ms);
  if (rules.presence_ms < 0)
    return InvalidArgument("server.presence is {} ms; it must not be negative", rules.presence_ms);
  const EvaluationRules& evaluation = rules.evaluation;
  if (evaluation.every < 0 || evaluation.clients < 1) {
    return InvalidArgument(
        "every {} versions are to be measured by {} clients; it must be 0 (none) or more, by 1 or more",
        evaluation.every, evaluation.clients);
  }
  if (evaluation.min_reports < 0 || evaluation.min_reports > evaluation.clients) {
    return InvalidArgument("an evaluation by {} clients counts with {} reports; it must be 0 (all) to {}",
                           evaluation.clients, evaluation.min_reports, evaluation.clients);
  }
  if (start.committed_round < 0 || start.attempt < 1) {
    return InvalidArgument("a run cannot start after round {} with attempt {}", start.committed_round, start.attempt);
  }
  for (const int64_t version : start.evaluations) {
    if (version < 0 || version > start.committed_round) {
      return InvalidArgument("version {} cannot be measured after round {}", version, start.committed_round);
    }
  }
  for (const BufferRules::Barrier& barrier : rules.barriers) {
    if (barrier.threshold < 0 || barrier.threshold > most || barrier.deadline_ms < 0) {
      return InvalidArgument("a barrier of {} tasks with a deadline of {} ms cannot be passed by at most {}",
                             barrier.threshold, barrier.deadline_ms, most);
    }
  }
  RunMachine machine(std::move(rules), std::move(start.population));
  machine.committed_round_ = start.committed_round;
  machine.attempt_ = start.attempt;
  machine.first_ordinal_ = start.first_ordinal;
  machine.members_.BeginDraw({machine.round(), machine.attempt_});
  for (const RunStart::Candidate& c : start.candidates) {
    machine.members_.Add(c.client_id, {c.from_round, c.from_attempt}, "");
  }
  for (const auto& [client_id, participation] : start.participations) {
    machine.members_.Remember(client_id, participation);
  }
  for (auto& [client_id, leases] : start.leases) machine.ordinals_.emplace(std::move(client_id), leases);
  machine.due_.assign(start.evaluations.begin(), start.evaluations.end());
  if (machine.committed_round_ >= machine.rules_.rounds) {
    machine.phase_ = machine.due_.empty() ? Phase::kFinished : Phase::kEvaluating;
  }
  return machine;
}

std::vector<Action> RunMachine::On(const Event& event, TimeMs now) {
  Actions actions;
  presence_.Begin(now);
  std::visit([&](const auto& e) { Handle(e, now, actions); }, event);
  Arm(now, actions);
  return actions;
}

void RunMachine::Handle(const Joined& event, TimeMs now, Actions& actions) {
  const auto [round, attempt] = next_draw();
  for (const std::string& client_id : event.client_ids) {
    Route(client_id, event.via, now);
    left_.erase(client_id);
    members_.Add(client_id, {round, attempt}, event.via);
    presence_.Saw(client_id, now);
  }
  OpenNext(now, actions);
}

// Whoever has had its task on the other way has it no longer.
void RunMachine::Route(const std::string& client_id, const std::string& via, TimeMs now) {
  if (!knows(client_id) || members_.via(client_id) == via) return;
  const std::string before = members_.via(client_id);
  members_.SetVia(client_id, via);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    // What was out before a restart is there before the first event opens its attempt again.
    const bool open = Open(kind) != nullptr || (resumed_ && kind == TaskKind::kTrain);
    const auto slot = open ? book_.OfClient(client_id, kind) : std::nullopt;
    if (!slot || book_.at(*slot).resolved()) continue;
    book_.SetVia(*slot, via);
    const Lease& lease = book_.at(*slot);
    const bool had = lease.state == State::kTaken || lease.state == State::kHeld;
    if (had && lease.step == 0 && lease.site == (before.empty() ? client_id : before)) OfferAgain(*slot, now);
  }
}

void RunMachine::OfferAgain(LeaseSlot slot, TimeMs now) {
  UpdateBuffer& buffer = Of(book_.at(slot)).buffer;
  Release(slot, State::kOffered);
  Extend(slot, now);
  if (buffer.state() == UpdateBuffer::State::kClosing) buffer.Reopen();
}

void RunMachine::Handle(const Left& event, TimeMs now, Actions& actions) {
  if (knows(event.client_id)) left_.insert(event.client_id);
  members_.Remove(event.client_id);
  presence_.Forget(event.client_id);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    Gathering* const open = Open(kind);
    const auto slot = open != nullptr ? book_.OfClient(event.client_id, kind) : std::nullopt;
    if (!slot || book_.at(*slot).resolved() || book_.at(*slot).state == State::kFolding) continue;
    // A site of many names may have folded it by now, and its other tasks with it.
    if (book_.at(*slot).served_by_another()) continue;
    SetState(*slot, State::kDropped, event.reason);
    Replace(*open, now, actions);
    Judge(*open, now, actions);
  }
}

void RunMachine::Handle(const Polled& event, TimeMs now, Actions& actions) {
  Handle(SitePolled{event.client_id}, now, actions);
}

// What a site says comes before what it gets: the last held lease may be what the attempt has waited for.
void RunMachine::Handle(const SitePolled& event, TimeMs now, Actions& actions) {
  const bool itself = event.serves == SitePolled::Serves::kItself;
  const bool tier = event.serves == SitePolled::Serves::kNames;
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
  } else if (tier) {
    for (const std::string& client_id : event.names)
      if (knows(client_id)) presence_.Saw(client_id, now);
  } else {
    const bool fresh = !presence_.seen_sites().contains(event.site);
    presence_.SawSite(event.site, now);
    if (fresh) OfferLapsed(now);
  }
  OpenNext(now, actions);

  std::set<LeaseSlot> named;
  std::set<TaskKind> holds_more;
  for (const SitePolled::Holding& holding : event.working_on) {
    const auto slot = book_.Find(holding.task);
    const bool of_site = slot && (itself ? book_.at(*slot).client_id : book_.at(*slot).via) == event.site;
    if (of_site && (itself || tier) && (MayComeBack(book_.at(*slot)) || IsStillHad(book_.at(*slot)))) {
      Take(*slot, event.site, now);
    }
    if (!slot || book_.at(*slot).resolved() || book_.at(*slot).site != event.site) {
      actions.push_back(Cancel{holding.task});
      continue;
    }
    const Lease& lease = book_.at(*slot);
    // Of a step that is behind the others it has yet to hear of the next one.
    if (holding.step == lease.step) named.insert(*slot);
    Extend(*slot, now);
    if (holding.held && !itself && lease.state == State::kTaken && Of(lease).buffer.at_last_step()) {
      holds_more.insert(lease.kind);
      SetState(*slot, State::kHeld);
    } else if (tier && !holding.held && lease.state == State::kHeld) {
      UpdateBuffer& buffer = Of(lease).buffer;
      SetState(*slot, State::kTaken);
      if (buffer.state() == UpdateBuffer::State::kClosing) buffer.Reopen();
    }
  }
  size_t answers = actions.size();
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    Gathering* const open = Open(kind);
    if (open == nullptr) continue;
    // Asked before: this poll's answer says it again. Otherwise it may be asked now, together with all others.
    if (open->buffer.state() == UpdateBuffer::State::kClosing) AskHolders(*open, &event.site, actions);
    if (holds_more.contains(kind)) Judge(*open, now, actions);
  }
  GiveLeases(event, named, now, actions);
  for (; answers < actions.size(); ++answers) {
    const auto* asked = std::get_if<HandOverPartial>(&actions[answers]);
    if (std::holds_alternative<Offer>(actions[answers]) || (asked != nullptr && asked->site == event.site)) return;
  }
  const int64_t pace = Pace::WaitFor(itself || tier ? known_clients() : presence_.sites());
  actions.push_back(AskToWait{event.site, Awaited(now), named.empty() ? pace : heartbeat_ms()});
}

// First what the site has had and no longer knows of; then new ones, as many as the buffers have room for. A client
// that speaks for itself trains first, as a version waits for that. A site of many names is given both kinds in any
// case, and an evaluation first: it is of an older version, whose model is kept for it.
void RunMachine::GiveLeases(const SitePolled& poll, const std::set<LeaseSlot>& named, TimeMs now, Actions& actions) {
  if (poll.serves == SitePolled::Serves::kNames) return GiveLeasesOfTier(poll, named, now, actions);
  int64_t want = poll.want;
  const auto give = [&](LeaseSlot slot) {
    actions.push_back(OfferOf(slot, true));
    --want;
  };
  // An upload that has begun may have been cut off: its client may need the task again to finish it.
  for (const LeaseSlot slot : book_.InHandOf(poll.site)) {
    if (want > 0 && !named.contains(slot) && Open(book_.at(slot))) {
      Extend(slot, now);
      give(slot);
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
  int64_t share = Pace::FairShare(want, offered, presence_.sites());
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

// Each as its client would have it that called itself; but new ones only as long as there is room, as its partial is
// taken as a whole.
void RunMachine::GiveLeasesOfTier(const SitePolled& poll, const std::set<LeaseSlot>& named, TimeMs now,
                                  Actions& actions) {
  int64_t want = poll.want;
  const auto give = [&](LeaseSlot slot) {
    actions.push_back(OfferOf(slot, true));
    --want;
  };
  for (const std::string& client_id : poll.names) {
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      const auto slot = Open(kind) != nullptr ? book_.OfClient(client_id, kind) : std::nullopt;
      if (want <= 0 || !slot || book_.at(*slot).via != poll.site || named.contains(*slot)) continue;
      const Lease& lease = book_.at(*slot);
      if (lease.site == poll.site && lease.in_hand()) {
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
    return refuse(Refuse::Why::kDuplicate, "this update is in its site's partial already");
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

// Staging and checking took time, in which the round may have closed or filled. What counts is the state now.
void RunMachine::Handle(const StageDone& event, TimeMs now, Actions& actions) {
  const auto slot = book_.Find(event.task);
  const Lease* lease = slot ? &book_.at(*slot) : nullptr;
  if (slot) Heard(*slot, now);
  // Its bytes came, however silent their sender was beside them.
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
  if (!of.buffer.at_last_step()) {
    SetState(*slot, State::kReported);
    return Judge(of, now, actions);
  }
  const bool room = of.buffer.Room() + (lease->promised() ? 1 : 0) > 0;
  if (!room && of.kind == TaskKind::kTrain && continuous()) {
    SetState(*slot, State::kTaken);
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kBusy,
                             fmt::format("round {} is full and being made; ask again", of.version)});
    return;
  }
  if (!room) {
    SetState(*slot, State::kDropped, Enough(of.kind));
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kLate, lease->reason});
    return Judge(of, now, actions);
  }
  SetState(*slot, State::kFolding);
  actions.push_back(Fold{event.task});
}

void RunMachine::Handle(const FoldDone& event, TimeMs now, Actions& actions) {
  Handle(Merged{{event.task}, event.ok, event.reason}, now, actions);
}

// A partial is taken as a whole or not at all, as nothing can be taken out of a sum whose addends are gone. After a
// refusal its leases are as before: a site that cannot bring them otherwise says that they have failed.
void RunMachine::Handle(const PartialReported& event, TimeMs now, Actions& actions) {
  const auto refuse = [&](const TaskId& task, Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.site, task, why, std::move(reason)});
  };
  if (event.tasks.empty()) {
    return refuse("", Refuse::Why::kUnknown, fmt::format("site '{}' brings a partial of no task", event.site));
  }
  std::vector<LeaseSlot> slots;
  int64_t counted = 0;  // of them, in Room() already
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
    const Lease& first = book_.at(*book_.Find(event.tasks[0]));
    if (lease.kind != first.kind || lease.base_round != first.base_round) {
      return refuse(task, Refuse::Why::kUnknown,
                    fmt::format("task '{}' is of another {} than the first one", task,
                                lease.kind != first.kind ? "kind" : "base version"));
    }
    if (Open(lease) && !Of(lease).buffer.at_last_step()) {
      return refuse(task, Refuse::Why::kUnknown, fmt::format("task '{}' is not at its last step yet", task));
    }
    if (lease.state == State::kHeld || lease.promised()) ++counted;
    slots.push_back(*slot);
  }
  std::vector<LeaseSlot> sorted = slots;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    const TaskId& task = book_.at(*twice).task;
    return refuse(task, Refuse::Why::kUnknown, fmt::format("a partial names task '{}' twice", task));
  }
  Gathering* const of = Open(book_.at(slots[0]).kind);
  if (of == nullptr) return refuse(event.tasks[0], Refuse::Why::kLate, "the run has ended");
  // Only of a client's own partial: a site of many names was given no more than there is room for.
  if (of->buffer.Room() + counted < static_cast<int64_t>(slots.size())) {
    for (const LeaseSlot slot : slots) SetState(slot, State::kDropped, Enough(of->kind));
    refuse(event.tasks[0], Refuse::Why::kLate, Enough(of->kind));
    return Judge(*of, now, actions);
  }
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
    SetState(*slot, event.ok ? State::kFolded : State::kRefused, event.ok ? "" : event.reason);
    moved.insert(book_.at(*slot).kind);
  }
  for (const TaskKind kind : moved) {
    Gathering* const of = Open(kind);
    if (of == nullptr) continue;
    // Where leases outlive versions, one that has ended makes room for another, however it ended.
    const bool ended = !event.ok || (kind == TaskKind::kTrain && continuous() && !of->buffer.full());
    if (ended) Replace(*of, now, actions);
    Judge(*of, now, actions);
  }
}

// An upload of a single task that is on its way goes on: it is not in any partial. Behind a barrier nobody else can
// know what the earlier steps were.
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

// The machine does not move on until the version is made. Its own idea of the next round, drawn earlier, would be wrong
// after one that failed.
void RunMachine::Handle(const CommitDone& event, TimeMs now, Actions& actions) {
  if (phase_ != Phase::kCommitting && phase_ != Phase::kAbandoning) return;
  const bool committed = phase_ == Phase::kCommitting;
  if (!event.ok) return End(Phase::kFailed, event.reason);
  if (committed) {
    sitting_out_.Clear();
  } else if (rules_.dial.replace) {
    // In the order drawn, and not in that in which they ended.
    for (const LeaseSlot slot : training_->buffer.leases()) {
      const Lease& lease = book_.at(slot);
      if (lease.state == State::kRefused || lease.state == State::kFailed) sitting_out_.Add(lease.client_id);
    }
  }
  CloseBuffer(made_ ? made_ : training_);
  if (committed) {
    ++committed_round_;
    attempt_ = 1;
    attempts_tried_ = 0;
    if (members_.remembers()) {
      for (const CommitDone::Reported& one : event.reported) {
        const auto before = members_.participations().find(one.client_id);
        const int64_t versions = before == members_.participations().end() ? 0 : before->second.versions;
        members_.Remember(one.client_id, {committed_round_, versions + 1, one.examples, one.loss, one.duration});
      }
    }
    // Ordinals tell leases of one client at one version apart; a new version starts anew.
    ordinals_.clear();
    members_.BeginDraw({round(), attempt_});
    const int64_t every = rules_.evaluation.every;
    const bool last = committed_round_ >= rules_.rounds;
    if (every > 0 && (committed_round_ % every == 0 || last)) {
      // Where evaluations end by a deadline, one that cannot begin before the next is due is left out.
      if (rules_.deadline_ms > 0) due_.clear();
      due_.push_back(committed_round_);
    }
    if (last) {
      if (!evaluation_ && due_.empty()) return End(Phase::kFinished, "");
      phase_ = Phase::kEvaluating;
      if (stopping_) return End(Phase::kStopped, "by its operator");
      return OpenNext(now, actions);
    }
  } else {
    if (LastAttempt()) return End(Phase::kFailed, reason_);
    ++attempt_;
    members_.BeginDraw({round(), attempt_});
    reason_.clear();
    not_before_ = now + rules_.retry.PauseAfter(attempts_tried_);
  }
  if (stopping_) return End(Phase::kStopped, "by its operator");
  phase_ = Phase::kWaiting;
  OpenNext(now, actions);
}

// Whose updates came while the version was made are in the next one already. Where nobody is out, it begins as the
// first one does.
void RunMachine::GoOn(TimeMs now, Actions& actions) {
  if (training_->buffer.leases().empty()) return training_.reset();
  ++attempts_tried_;
  phase_ = Phase::kTraining;
  armed_ = 0;
  if (ordered()) {
    LetArrive(now, actions);
  } else if (!paused_) {
    AddLeases(*training_, Draw(TaskKind::kTrain, training_->buffer.Missing(), now), now, actions);
  }
  Judge(*training_, now, actions);
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
  while (arrived() < rules_.dial.updates_per_version) {
    AddLeases(*training_, Draw(TaskKind::kTrain, rules_.dial.in_flight - in_the_air(), now), now, actions);
    if (under_way_.empty()) return;
    const auto [at, client_id, slot] = *under_way_.begin();
    under_way_.erase(under_way_.begin());
    virtual_now_ = std::max(virtual_now_, at);
    book_.MakeDue(slot);
  }
}

void RunMachine::Handle(const EvaluationDone& event, TimeMs now, Actions& actions) {
  if (over() || !evaluation_ || Open(TaskKind::kEvaluate) != nullptr) return;
  if (!event.ok) return End(Phase::kFailed, event.reason);
  CloseBuffer(evaluation_);
  members_.EndBeside();
  if (phase_ == Phase::kEvaluating && due_.empty()) return End(Phase::kFinished, "");
  if (phase_ == Phase::kEvaluating && stopping_) return End(Phase::kStopped, "by its operator");
  OpenEvaluation(now, actions);
}

// Whatever goes on is given up: versions that cannot be written would only be made in vain.
void RunMachine::Handle(const VersionFailed& event, TimeMs, Actions&) {
  if (!over()) End(Phase::kFailed, event.reason);
}

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
  const bool ask = rules_.lease_ms > 0 && buffer.held() > 0 && !buffer.asked_last();
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

bool RunMachine::MayComeBack(const Lease& lease) const {
  const Gathering* const of = lease.state == State::kLapsed ? Open(lease.kind) : nullptr;
  return of != nullptr && of->buffer.state() == UpdateBuffer::State::kOpen && of->buffer.Room() > 0;
}

// After a restart a task is offered again that a site has had all the time: whoever says so goes on with it, and what
// it holds of it is not lost. Which sites are to be believed whoever feeds this machine knows.
bool RunMachine::IsStillHad(const Lease& lease) const {
  const Gathering* const of = lease.state == State::kOffered && lease.due ? Open(lease.kind) : nullptr;
  return of != nullptr && of->buffer.state() == UpdateBuffer::State::kOpen && of->buffer.Room() > 0;
}

int64_t RunMachine::heartbeat_ms() const { return Pace::Heartbeat(known_clients(), rules_.lease_ms); }

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

// A round that is being committed is finished first: its updates are all in, and throwing them away would cost a round
// of every client. So is a run of which nothing is missing but the rows of its last measuring: said to be interrupted,
// it would be resumed to do nothing. A pause lets an open attempt go on to its end, with those who are asked in the
// place of others: given up, it would count as one that got too few.
void RunMachine::Handle(const Operator& event, TimeMs now, Actions& actions) {
  if (over()) return;
  const auto go_on = [&] {
    Gathering* const open = Open(TaskKind::kTrain);
    if (!std::exchange(paused_, false) || open == nullptr) return;
    Replace(*open, now, actions);
    Judge(*open, now, actions);
  };
  switch (event.command) {
    case Operator::Command::kPause:
      paused_ = true;
      return;
    case Operator::Command::kResume:
      go_on();
      return OpenNext(now, actions);
    case Operator::Command::kFinishRound:
      stopping_ = true;
      go_on();  // or it would never be finished
      if (phase_ == Phase::kTraining || (phase_ == Phase::kEvaluating && evaluation_)) return;
      break;
    case Operator::Command::kStop:
      stopping_ = true;
      break;
  }
  const bool measured =
      phase_ == Phase::kEvaluating && evaluation_ && Open(TaskKind::kEvaluate) == nullptr && due_.empty();
  if (phase_ == Phase::kCommitting || phase_ == Phase::kAbandoning || measured) return;
  End(Phase::kStopped, "by its operator");
}

bool RunMachine::Rests(const Gathering& gathering) const {
  if (!paused_ || gathering.kind != TaskKind::kTrain || !continuous()) return false;
  const UpdateBuffer& buffer = gathering.buffer;
  const int64_t out = buffer.CountInState(State::kOffered) + buffer.CountInState(State::kTaken) +
                      buffer.CountInState(State::kStaging) + buffer.CountInState(State::kFolding);
  return out == 0 && buffer.folded() + buffer.held() < rules_.dial.updates_per_version;
}

int64_t RunMachine::names_wanted() const {
  return std::max({int64_t{1}, rules_.min_clients - static_cast<int64_t>(left_.size()), rules_.min_reports});
}

int64_t RunMachine::least() const { return std::max<int64_t>(rules_.min_reports, 1); }

bool RunMachine::LastAttempt() const { return rules_.max_attempts > 0 && attempts_tried_ >= rules_.max_attempts; }

void RunMachine::Heard(LeaseSlot slot, TimeMs now) {
  const Lease& lease = book_.at(slot);
  if (lease.site == lease.client_id) presence_.Saw(lease.client_id, now);
  if (lease.in_hand()) Extend(slot, now);
}

TimeMs RunMachine::deadline() const { return training_ && !over() ? training_->buffer.deadline() : 0; }

RunMachine::Gathering* RunMachine::Open(TaskKind kind) {
  if (kind == TaskKind::kTrain) {
    return phase_ == Phase::kTraining || (phase_ == Phase::kCommitting && made_ && training_) ? &*training_ : nullptr;
  }
  return evaluation_ && !over() && evaluation_->buffer.state() != UpdateBuffer::State::kClosed ? &*evaluation_
                                                                                               : nullptr;
}

bool RunMachine::Needs(int64_t version) const {
  if (training_ && !over() && version < committed_round_) {
    for (const LeaseSlot slot : training_->buffer.leases()) {
      if (book_.at(slot).base_round == version && !book_.at(slot).resolved()) return true;
    }
  }
  return (evaluation_ && !over() && evaluation_->version == version) ||
         std::find(due_.begin(), due_.end(), version) != due_.end();
}

std::optional<int64_t> RunMachine::oldest_to_measure() const {
  if (evaluation_) return evaluation_->version;
  return due_.empty() ? std::nullopt : std::optional(due_.front());
}

int64_t RunMachine::CountInState(Lease::State state, TaskKind kind) const {
  const std::optional<Gathering>& of = kind == TaskKind::kEvaluate ? evaluation_ : made_ ? made_ : training_;
  return of ? of->buffer.CountInState(state) : 0;
}

std::pair<int64_t, int64_t> RunMachine::next_draw() const {
  // While nothing is drawn for this (round, attempt), it is the next draw; afterwards the next is a later one, and
  // whether that is an attempt or a round, it comes after (round, attempt + 1) in order.
  return {round(), phase_ == Phase::kWaiting ? attempt_ : attempt_ + 1};
}

std::string RunMachine::Awaited(TimeMs now) {
  switch (phase_) {
    case Phase::kWaiting:
      if (paused_) return fmt::format("the run is paused by its operator; round {} starts when it is resumed", round());
      if (now < not_before_) {
        return fmt::format("attempt {} at round {} starts after a pause; the last one got too few updates", attempt_,
                           round());
      }
      if (members_.eligible() >= names_wanted()) {
        return fmt::format("{} clients are present; round {} starts when {} are",
                           presence_.CountPresent(members_.eligible(), now), round(), least());
      }
      if (!rules_.wanted_as.empty()) {
        const int64_t missing = names_wanted() - members_.eligible();
        return fmt::format("{} of {} clients; round {} waits for {} more{}", known_clients(), names_wanted(), round(),
                           missing == 1 ? "one" : fmt::format("{}", missing), rules_.wanted_as);
      }
      return fmt::format("{} of {} clients; round {} starts when all have joined", known_clients(), names_wanted(),
                         round());
    case Phase::kTraining: {
      return fmt::format(
          "{} of {} updates of round {} are in; this client waits for the next selection", training_->buffer.folded(),
          continuous() ? rules_.dial.updates_per_version : std::ssize(training_->buffer.leases()), round());
    }
    case Phase::kEvaluating:
      return fmt::format("round {} was the last; it is being measured by clients", committed_round_);
    case Phase::kCommitting:
      return fmt::format("round {} is being committed; then comes the next selection", round());
    default:
      return fmt::format("round {} is being started again", round());
  }
}

void RunMachine::OpenNext(TimeMs now, Actions& actions) {
  if (std::exchange(resumed_, false) && training_) {
    for (const LeaseSlot slot : training_->buffer.leases()) {
      if (book_.at(slot).state == State::kOffered) actions.push_back(OfferOf(slot, false));
    }
  }
  OpenEvaluation(now, actions);
  if (phase_ == Phase::kWaiting && training_) GoOn(now, actions);
  if (phase_ == Phase::kWaiting && !paused_) OpenTraining(now, actions);
}

// After a restart the attempt that was cut off is drawn again from the names it was drawn from. An attempt that could
// not make a version with whoever is there is not begun: the run waits for who is absent.
void RunMachine::OpenTraining(TimeMs now, Actions& actions) {
  if (now < not_before_) {
    actions.push_back(WakeAt{not_before_});
    armed_ = not_before_;
    return;
  }
  if (members_.eligible() < names_wanted()) return;
  const int64_t present = presence_.CountPresent(members_.eligible(), now);
  if (present < least()) return;
  sitting_out_.ForgiveUntil(present, least());
  const bool bounded = rules_.deadline_ms > 0 && !continuous();
  Gathering training{TaskKind::kTrain, round(), attempt_,
                     UpdateBuffer(RulesAt(TaskKind::kTrain, bounded ? now + rules_.deadline_ms : 0))};
  std::vector<std::string> cohort = Draw(TaskKind::kTrain, training.buffer.Missing(), now);
  const int64_t enough = continuous() ? std::min(least(), rules_.dial.in_flight) : least();
  if (static_cast<int64_t>(cohort.size()) < enough) {
    if (nobody_else_comes()) {
      return End(Phase::kFailed,
                 fmt::format("round {} can draw {} of the {} clients that it needs, and nobody else may "
                             "be drawn for it; look at selection.trace",
                             round(), cohort.size(), enough));
    }
    members_.BeginDraw({round(), attempt_});  // of whom was counted some may not be drawn yet
    return;
  }
  ++attempts_tried_;
  phase_ = Phase::kTraining;
  training_ = std::move(training);
  training_->buffer.BeginStep(0, now);
  armed_ = 0;
  AddLeases(*training_, std::move(cohort), now, actions);
  if (ordered()) LetArrive(now, actions);
}

// It is begun with whoever is there: who is absent now may be absent for ever, and the run's end would wait. The draw
// is that of the version, whenever it begins, of the members that training could draw from at this moment.
void RunMachine::OpenEvaluation(TimeMs now, Actions& actions) {
  if (evaluation_ || due_.empty() || over() || paused_) return;
  evaluation_ = {TaskKind::kEvaluate, due_.front(), 1,
                 UpdateBuffer(RulesAt(TaskKind::kEvaluate, rules_.deadline_ms > 0 ? now + rules_.deadline_ms : 0))};
  due_.pop_front();
  members_.BeginBeside(TaskKind::kEvaluate, {evaluation_->version, evaluation_->attempt});
  armed_ = 0;
  std::vector<std::string> cohort = Draw(TaskKind::kEvaluate, evaluation_->buffer.Missing(), now);
  if (static_cast<int64_t>(cohort.size()) >= std::max<int64_t>(rules_.evaluation.min_reports, 1)) {
    AddLeases(*evaluation_, std::move(cohort), now, actions);
  }
  Judge(*evaluation_, now, actions);
}

// An evaluation asks those too whose update was refused: it is another task. Nobody is asked to train who still does;
// on a virtual clock, who has not arrived yet.
std::vector<std::string> RunMachine::Draw(TaskKind kind, int64_t count, TimeMs now) {
  const int64_t round = kind == TaskKind::kTrain ? this->round() : evaluation_->version;
  const auto absent = [&](const std::string& client_id) {
    return !presence_.IsPresent(client_id, now) || (rules_.available && !rules_.available(client_id, round));
  };
  if (kind == TaskKind::kEvaluate) return members_.DrawBeside(count, absent);
  return members_.Draw(count, [&](const std::string& client_id) {
    const Lease* const lease = continuous() ? LeaseOf(client_id) : nullptr;
    return sitting_out_.names().contains(client_id) || absent(client_id) ||
           (lease != nullptr && !lease->resolved() && !(ordered() && lease->due));
  });
}

void RunMachine::AddLeases(Gathering& to, std::vector<std::string> client_ids, TimeMs now, Actions& actions) {
  for (std::string& client_id : client_ids) {
    Lease lease;
    lease.via = members_.via(client_id);
    lease.kind = to.kind;
    lease.base_round = to.kind == TaskKind::kTrain ? committed_round_ : to.version;
    // The ordinal is in the task's name and in the stream of its randomness. An attempt that is run again under the
    // same number gives the same tasks, so that a client that still holds an update can submit it after a restart. No
    // client measures a version twice.
    const int64_t before = to.kind == TaskKind::kTrain ? ordinals_[client_id]++ : 0;
    lease.ordinal = static_cast<uint16_t>((first_ordinal_ + before) % kMaxOrdinals);
    lease.task = TaskIdOf(rules_.run_id, {to.kind, to.version, to.attempt, client_id, lease.ordinal});
    if (to.kind == TaskKind::kTrain && ordered()) {
      lease.arrives = virtual_now_ + std::max<int64_t>(rules_.task_time(client_id), 1);
      lease.due = false;
    }
    lease.client_id = std::move(client_id);
    lease.expires = rules_.lease_ms > 0 ? now + rules_.lease_ms : 0;
    actions.push_back(Offer{lease, to.version, to.attempt, false, GatherOf(lease, to)});
    Add(std::move(lease));
  }
}

// Not when the buffer is closing: what is held then is enough, or there was nobody left to ask. Nor behind a barrier:
// who comes new has not brought what the others need of its earlier steps.
void RunMachine::Replace(Gathering& in, TimeMs now, Actions& actions) {
  const UpdateBuffer& buffer = in.buffer;
  if (paused_ && continuous() && in.kind == TaskKind::kTrain) return;
  if (ordered() && in.kind == TaskKind::kTrain) {
    if (phase_ == Phase::kTraining && buffer.state() != UpdateBuffer::State::kClosed) LetArrive(now, actions);
    return;
  }
  if (!rules_.dial.replace || buffer.state() != UpdateBuffer::State::kOpen || buffer.step() > 0) return;
  if (in.kind == TaskKind::kTrain && phase_ != Phase::kTraining)
    return;  // who comes next starts from what is being made
  if (buffer.next_deadline() == 0 || now < buffer.next_deadline()) {
    AddLeases(in, Draw(in.kind, buffer.Missing(), now), now, actions);
  }
}

BufferRules RunMachine::RulesAt(TaskKind kind, TimeMs deadline) const {
  const EvaluationRules& evaluation = rules_.evaluation;
  if (kind == TaskKind::kEvaluate) {
    return {evaluation.clients, evaluation.clients, evaluation.min_reports, deadline, {}, false};
  }
  return {rules_.dial.in_flight, rules_.dial.updates_per_version, rules_.min_reports, deadline, rules_.barriers,
          continuous()};
}

void RunMachine::CloseBuffer(std::optional<Gathering>& gathering) {
  for (const LeaseSlot slot : gathering->buffer.leases()) book_.Remove(slot);
  gathering.reset();
}

void RunMachine::DropOffered(TaskKind kind, const std::string& reason) {
  while (const auto slot = book_.NextOffered(kind)) SetState(*slot, State::kDropped, reason);
}

// A fold under way cannot be taken back; it ends as it ends.
void RunMachine::DropOpen(const Gathering& gathering, const std::string& reason, bool held, bool reported) {
  DropLapsed(gathering);
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    const Lease& lease = book_.at(slot);
    if (lease.resolved() || lease.state == State::kFolding || (lease.state == State::kHeld && !held)) continue;
    if (lease.state != State::kReported || reported) SetState(slot, State::kDropped, reason);
  }
}

void RunMachine::DropLapsed(const Gathering& gathering) {
  if (gathering.buffer.lapsed() == 0) return;
  const std::string reason = fmt::format("it was not heard of for {:g} s", static_cast<double>(rules_.lease_ms) / 1000);
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    if (book_.at(slot).state == State::kLapsed) SetState(slot, State::kDropped, reason);
  }
}

// In the order of their names, so that the actions are a function of what is held.
void RunMachine::AskHolders(const Gathering& gathering, const std::string* site, Actions& actions) const {
  std::map<std::pair<std::string_view, uint64_t>, std::vector<TaskId>> held;
  for (const LeaseSlot slot : gathering.buffer.leases()) {
    const Lease& lease = book_.at(slot);
    if (lease.state == State::kHeld && (site == nullptr || lease.site == *site)) {
      held[{lease.site, GatherOf(lease, gathering)}].push_back(lease.task);
    }
  }
  for (auto& [holder, tasks] : held) {
    actions.push_back(HandOverPartial{std::string(holder.first), holder.second, std::move(tasks)});
  }
}

uint64_t RunMachine::GatherOf(const Lease& lease, const Gathering& in) const {
  if (in.kind == TaskKind::kTrain && continuous()) return rivulet::GatherOf(lease.base_round + 1, 1);
  return rivulet::GatherOf(in.version, in.attempt, in.kind);
}

Offer RunMachine::OfferOf(LeaseSlot slot, bool again) {
  const Lease& lease = book_.at(slot);
  const Gathering& of = Of(lease);
  return {lease, of.version, of.attempt, again, GatherOf(lease, of)};
}

// The only place where an attempt ends, called after everything that may resolve a lease.
void RunMachine::Judge(Gathering& gathering, TimeMs now, Actions& actions) {
  if (gathering.kind == TaskKind::kTrain && phase_ != Phase::kTraining) return;  // one version is made at a time
  if (Rests(gathering)) return;
  UpdateBuffer& buffer = gathering.buffer;
  switch (buffer.needless()) {
    case UpdateBuffer::Needless::kOpen:
      DropOpen(gathering, Enough(gathering.kind));
      break;
    case UpdateBuffer::Needless::kOffered:
      DropOffered(gathering.kind, Enough(gathering.kind));
      break;
    case UpdateBuffer::Needless::kNone:
      break;
  }
  const UpdateBuffer::Verdict verdict = buffer.Judge();
  if (verdict == UpdateBuffer::Verdict::kGoOn) return;
  if (verdict == UpdateBuffer::Verdict::kAskFor) return AskHolders(gathering, nullptr, actions);
  if (verdict == UpdateBuffer::Verdict::kNextStep) return BeginNextStep(gathering, now, actions);
  const bool enough = verdict == UpdateBuffer::Verdict::kCommit;
  const bool train = gathering.kind == TaskKind::kTrain;
  const bool goes_on = train && enough && continuous() && round() < rules_.rounds;
  if (goes_on) {
    CarryOver();
  } else if (train && enough && continuous()) {
    DropOpen(gathering, "the run had all its versions without it");
  } else if (buffer.at_last_step()) {
    DropLapsed(gathering);
  } else {
    DropOpen(gathering, fmt::format("too few have reported step {}", buffer.step()));
  }
  actions.push_back(Close{train ? round() : gathering.version, train ? attempt_ : gathering.attempt, gathering.kind});
  armed_ = 0;  // whoever is told to close forgets when to wake for it
  if (!train) return Evaluate(gathering, enough, actions);
  if (enough) {
    phase_ = Phase::kCommitting;
    actions.push_back(Commit{round(), attempt_, Folded(made_ ? made_->buffer : buffer)});
    return;
  }
  phase_ = Phase::kAbandoning;
  const std::string reason = fmt::format("{} of {} updates that round {} needs arrived ({})", buffer.folded(),
                                         buffer.least(), round(), Complaints(leases()));
  reason_ = fmt::format("round {} was given up after {} attempt{}; in the last, {}", round(), attempts_tried_,
                        attempts_tried_ == 1 ? "" : "s", reason);
  actions.push_back(Abandon{round(), attempt_, reason, LastAttempt()});
}

// Which of them could still be in time for the next version is known now, as that is the next they can go into.
void RunMachine::CarryOver() {
  DropLapsed(*training_);
  for (const LeaseSlot slot : training_->buffer.leases()) {
    const Lease& lease = book_.at(slot);
    const int64_t staleness = round() - lease.base_round;
    if (lease.resolved() || staleness <= rules_.dial.max_staleness) continue;
    SetState(
        slot, State::kDropped,
        fmt::format("its update would be {} versions late, and {} are allowed", staleness, rules_.dial.max_staleness));
  }
  Gathering next{TaskKind::kTrain, round() + 1, 1, UpdateBuffer(RulesAt(TaskKind::kTrain, 0))};
  Gathering made{TaskKind::kTrain, round(), attempt_,
                 UpdateBuffer(RulesAt(TaskKind::kTrain, 0), UpdateBuffer::State::kClosed)};
  for (const LeaseSlot slot : training_->buffer.leases()) {
    (book_.at(slot).resolved() ? made : next).buffer.Add(slot, book_.at(slot));
  }
  made_ = std::move(made);
  training_ = std::move(next);
}

void RunMachine::Evaluate(const Gathering& gathering, bool enough, Actions& actions) {
  const UpdateBuffer& buffer = gathering.buffer;
  Evaluated evaluated{gathering.version, gathering.attempt, Folded(buffer), ""};
  if (!enough && buffer.leases().empty()) {
    evaluated.reason = fmt::format("too few clients were there to measure round {}", gathering.version);
  } else if (!enough) {
    evaluated.reason =
        fmt::format("{} of {} reports that the evaluation of round {} needs arrived ({})", buffer.folded(),
                    buffer.least(), gathering.version, Complaints(leases(gathering.kind)));
  }
  actions.push_back(std::move(evaluated));
}

// Sorted, so that the action does not show the order in which updates came.
std::vector<TaskId> RunMachine::Folded(const UpdateBuffer& buffer) const {
  std::vector<TaskId> tasks;
  for (const LeaseSlot slot : buffer.leases()) {
    if (book_.at(slot).state == State::kFolded) tasks.push_back(book_.at(slot).task);
  }
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

// Its site has the task still; what it brought at one step stays with it, so that no other could go on.
void RunMachine::BeginNextStep(Gathering& gathering, TimeMs now, Actions& actions) {
  UpdateBuffer& buffer = gathering.buffer;
  const int step = buffer.step() + 1;
  DropOpen(gathering, fmt::format("step {} began without it", step), true, false);
  for (const LeaseSlot slot : buffer.leases()) {
    if (book_.at(slot).state != State::kReported) continue;
    buffer.Leave(book_.at(slot));
    book_.BeginStep(slot, step);
    buffer.Enter(book_.at(slot));
    Extend(slot, now);
    actions.push_back(OfferOf(slot, false));
  }
  buffer.BeginStep(step, now);
}

// What is folded towards a version that is not made yet is trained again after a restart.
std::vector<int64_t> RunMachine::NeededVersions() const {
  std::set<int64_t> versions;
  for (const std::optional<Gathering>* from : {&made_, &training_}) {
    if (!from->has_value()) continue;
    for (const LeaseSlot slot : (*from)->buffer.leases()) {
      const Lease& lease = book_.at(slot);
      const bool again = !lease.resolved() || lease.state == State::kFolded;
      if (again && lease.base_round < committed_round_) versions.insert(lease.base_round);
    }
  }
  return {versions.begin(), versions.end()};
}

std::vector<Lease> RunMachine::leases(TaskKind kind) const {
  const std::optional<Gathering>& of = kind == TaskKind::kEvaluate ? evaluation_ : made_ ? made_ : training_;
  std::vector<Lease> leases;
  if (!of) return leases;
  leases.reserve(of->buffer.leases().size());
  for (const LeaseSlot slot : of->buffer.leases()) leases.push_back(book_.at(slot));
  return leases;
}

const Lease* RunMachine::LeaseOf(const std::string& client_id, TaskKind kind) const {
  const auto slot = book_.OfClient(client_id, kind);
  return slot ? &book_.at(*slot) : nullptr;
}

const Lease* RunMachine::FindLease(const TaskId& task) const {
  const auto slot = book_.Find(task);
  return slot ? &book_.at(*slot) : nullptr;
}

void RunMachine::Add(Lease lease) {
  const LeaseSlot slot = book_.Add(std::move(lease));
  const Lease& added = book_.at(slot);
  if (!added.due) under_way_.emplace(added.arrives, added.client_id, slot);
  Of(added).buffer.Add(slot, added);
}

void RunMachine::Take(LeaseSlot slot, const std::string& site, TimeMs now) {
  UpdateBuffer& buffer = Of(book_.at(slot)).buffer;
  buffer.Leave(book_.at(slot));
  book_.Take(slot, site);
  buffer.Enter(book_.at(slot));
  Extend(slot, now);
}

void RunMachine::Release(LeaseSlot slot, State state) {
  UpdateBuffer& buffer = Of(book_.at(slot)).buffer;
  buffer.Leave(book_.at(slot));
  book_.Release(slot, state);
  buffer.Enter(book_.at(slot));
}

void RunMachine::Extend(LeaseSlot slot, TimeMs now) {
  const Lease& lease = book_.at(slot);
  const bool lapses = lease.in_hand() || lease.state == State::kHeld || lease.state == State::kOffered;
  if (rules_.lease_ms > 0 && lapses) book_.Extend(slot, now + rules_.lease_ms);
}

void RunMachine::SetState(LeaseSlot slot, State state, std::string reason) {
  const Lease& lease = book_.at(slot);
  UpdateBuffer& buffer = Of(lease).buffer;
  buffer.Leave(lease);
  if (!lease.due && state >= State::kFolded) under_way_.erase({lease.arrives, lease.client_id, slot});
  book_.SetState(slot, state, std::move(reason));
  buffer.Enter(book_.at(slot));
}

void RunMachine::End(Phase phase, std::string reason) {
  phase_ = phase;
  reason_ = std::move(reason);
}

}  // namespace rivulet
