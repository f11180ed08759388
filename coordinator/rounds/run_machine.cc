#include "coordinator/rounds/run_machine.h"

#include <algorithm>

namespace rivulet {
namespace {

using State = Lease::State;

constexpr int64_t kMaxRounds = (int64_t{1} << 32) - 1;  // a round is a word of the random counter

// Every limit that the machine relies on is checked here, with the name of its key in the error, so Handle never meets
// an impossible policy.
Status CheckRules(const RunRules& rules, const RunStart& start) {
  const RoundPolicy& policy = rules.policy;
  if (rules.run_id.empty()) return InvalidArgument("a run needs an id");
  if (rules.rounds < 1 || rules.rounds > kMaxRounds) {
    return InvalidArgument("run.rounds is {}; it must be 1 to {}", rules.rounds, kMaxRounds);
  }
  if (policy.in_flight < 1)
    return InvalidArgument("server.clients_per_round is {}; it must be at least 1", policy.in_flight);
  if (policy.updates_per_version < 1) {
    return InvalidArgument("a model version of {} updates is impossible; it takes at least 1",
                           policy.updates_per_version);
  }
  const bool latest = policy.base_policy == RoundPolicy::BasePolicy::kLatest;
  if (policy.max_staleness < 0 || (policy.max_staleness != 0 && !latest)) {
    return InvalidArgument(
        "max_staleness is {}; {}", policy.max_staleness,
        latest ? "it must be 0 or more" : "leases that start from the last committed version are never stale");
  }
  if (latest && rules.selector != nullptr && rules.selector->remembers()) {
    return InvalidArgument(
        "a selection by the results of earlier versions needs server.base = \"committed\": where tasks outlive "
        "versions, clients are drawn before those results are known; set selection.name = \"uniform\"");
  }
  if (latest && !rules.barriers.empty()) {
    return InvalidArgument("tasks of {} steps cannot outlive a version: their steps are taken together",
                           rules.barriers.size() + 1);
  }
  if (rules.arrivals_are_ordered() && !rules.barriers.empty()) {
    return InvalidArgument("tasks of {} steps take no virtual time: only when all of a task arrives is known",
                           rules.barriers.size() + 1);
  }
  const int64_t most = latest ? policy.updates_per_version : std::min(policy.in_flight, policy.updates_per_version);
  if (rules.min_reports < 0 || rules.min_reports > most) {
    return InvalidArgument("server.min_reports is {}; it must be 0 (all) to {}, the most updates of a round",
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
  if (start.committed_round < 0 || start.attempts_before < 0 || start.attempt <= start.attempts_before) {
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
  if (rules.sum_step < -1 || rules.sum_step > static_cast<int>(rules.barriers.size())) {
    return InvalidArgument("step {} of {} cannot be that of the sum", rules.sum_step, rules.barriers.size() + 1);
  }
  if (rules.sum_step >= 0 && policy.in_flight > policy.updates_per_version) {
    return InvalidArgument(
        "server.over_selection asks {} clients for {} updates, and the updates of tasks in steps are all summed; set "
        "it "
        "to 1",
        policy.in_flight, policy.updates_per_version);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<RunMachine> RunMachine::Create(RunRules rules, RunStart start) {
  RIVULET_RETURN_IF_ERROR(CheckRules(rules, start));
  RunMachine machine(std::move(rules), std::move(start.population));
  machine.committed_round_ = start.committed_round;
  machine.attempt_ = start.attempt;
  machine.attempts_before_ = start.attempts_before;
  machine.first_ordinal_ = start.first_ordinal;
  machine.virtual_now_ = start.virtual_now;
  machine.members_.BeginDraw(machine.DrawnAs());
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

std::vector<Action> RunMachine::On(const Event& event, TimeMs now, std::vector<Action> room) {
  Actions actions = std::move(room);
  presence_.Begin(now);
  std::visit([&](const auto& e) { Handle(e, now, actions); }, event);
  Arm(now, actions);
  return actions;
}

void RunMachine::Handle(const ClientsJoined& event, TimeMs now, Actions& actions) {
  const auto [round, attempt] = next_draw();
  for (const std::string& client_id : event.client_ids) {
    Route(client_id, event.via, now);
    left_.erase(client_id);
    members_.Add(client_id, {round, attempt}, event.via);
    presence_.Saw(client_id, now);
  }
  OpenNext(now, actions);
}

// A client that changes its route loses the task that it has by the other one.
void RunMachine::Route(const std::string& client_id, const std::string& via, TimeMs now) {
  if (!knows(client_id) || members_.via(client_id) == via) return;
  const std::string before = members_.via(client_id);
  members_.SetVia(client_id, via);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    // Leases that were open before a restart exist before the first event opens their attempt again.
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

void RunMachine::Handle(const ClientLeft& event, TimeMs now, Actions& actions) {
  if (knows(event.client_id)) left_.insert(event.client_id);
  members_.Remove(event.client_id);
  presence_.Forget(event.client_id);
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    Gathering* const open = Open(kind);
    const auto slot = open != nullptr ? book_.OfClient(event.client_id, kind) : std::nullopt;
    if (!slot || book_.at(*slot).resolved() || book_.at(*slot).state == State::kFolding) continue;
    // A site of many clients may have aggregated it by now, together with its other tasks.
    if (book_.at(*slot).served_by_another()) continue;
    SetState(*slot, State::kDropped, event.reason);
    Replace(*open, now, actions);
    Judge(*open, now, actions);
  }
}

int64_t RunMachine::heartbeat_ms() const { return PollIntervals::Heartbeat(known_clients(), rules_.lease_ms); }

// A round that is being committed is finished first: its updates are complete, and dropping them would waste a round of
// every client. So is a run that lacks only the rows of its last evaluation: as interrupted, it would be resumed for no
// work. A pause lets an open attempt continue to its end, with replacements for lost clients: if abandoned, it would
// count as one with too few updates.
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
  return out == 0 && buffer.folded() + buffer.held() < rules_.policy.updates_per_version;
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
  // Before the draw of this (round, attempt), it is the next draw. Afterwards the next one is a later attempt or round,
  // and both follow (round, attempt + 1) or equal it.
  const auto [round, attempt] = DrawnAs();
  return {round, phase_ == Phase::kWaiting ? attempt : attempt + 1};
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
          continuous() ? rules_.policy.updates_per_version : std::ssize(training_->buffer.leases()), round());
    }
    case Phase::kEvaluating:
      return fmt::format("round {} was the last; it is being measured by clients", committed_round_);
    case Phase::kCommitting:
      return fmt::format("round {} is being committed; then comes the next selection", round());
    default:
      return fmt::format("round {} is being started again", round());
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

// Updates aggregated towards an unfinished version are trained again after a restart.
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
  if (lease.summed && state > State::kFolded) {
    state = State::kFolded;
    reason.clear();
  }
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
