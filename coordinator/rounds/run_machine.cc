#include "coordinator/rounds/run_machine.h"

#include <algorithm>

#include "coordinator/selection/uniform.h"

namespace rivulet {
namespace {

using State = Lease::State;

constexpr int64_t kMaxRounds = (int64_t{1} << 32) - 1;  // a round is a word of the random counter
constexpr int64_t kMaxOrdinals = 65536;                 // an ordinal is 16 bits of it

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
  if (dial.max_staleness != 0) {
    return InvalidArgument("max_staleness is {}; leases that start from the last committed version are never stale",
                           dial.max_staleness);
  }
  const int64_t most = std::min(dial.in_flight, dial.updates_per_version);
  if (rules.min_reports < 0 || rules.min_reports > most) {
    return InvalidArgument("server.min_reports is {}; it must be 0 (all) to {}, what a round can get",
                           rules.min_reports, most);
  }
  if (rules.min_clients < 0)
    return InvalidArgument("server.min_clients is {}; it must not be negative", rules.min_clients);
  if (rules.deadline_ms < 0)
    return InvalidArgument("server.deadline is {} ms; it must not be negative", rules.deadline_ms);
  if (rules.max_attempts < 1)
    return InvalidArgument("server.max_attempts is {}; it must be at least 1", rules.max_attempts);
  if (start.committed_round < 0 || start.attempt < 1) {
    return InvalidArgument("a run cannot start after round {} with attempt {}", start.committed_round, start.attempt);
  }
  RunMachine machine(std::move(rules));
  machine.committed_round_ = start.committed_round;
  machine.attempt_ = start.attempt;
  for (RunStart::Candidate& c : start.candidates) {
    machine.candidates_.emplace(std::move(c.client_id), Known{c.from_round, c.from_attempt, ""});
  }
  for (auto& [client_id, leases] : start.leases) machine.ordinals_.emplace(std::move(client_id), leases);
  if (machine.committed_round_ >= machine.rules_.rounds) machine.phase_ = Phase::kFinished;
  return machine;
}

std::vector<Action> RunMachine::On(const Event& event, TimeMs now) {
  Actions actions;
  std::visit([&](const auto& e) { Handle(e, now, actions); }, event);
  return actions;
}

// A name that joins while an attempt is open may be drawn from the next one on. If it could be drawn at once, the
// cohort would depend on when it joined; and after a crash, on whether it had joined before the attempt is drawn again.
void RunMachine::Handle(const Joined& event, TimeMs now, Actions& actions) {
  const auto [round, attempt] = next_draw();
  for (const std::string& client_id : event.client_ids) {
    candidates_.emplace(client_id, Known{round, attempt, event.via});
  }
  if (phase_ == Phase::kWaiting) DrawCohort(now, actions);
}

void RunMachine::Handle(const Left& event, TimeMs, Actions& actions) {
  candidates_.erase(event.client_id);
  Lease* lease = phase_ == Phase::kTraining ? FindLeaseOf(event.client_id) : nullptr;
  if (lease == nullptr || lease->resolved() || lease->state == State::kFolding) return;
  SetState(*lease, State::kDropped, "it left the run");
  CloseWhenResolved(actions);
}

void RunMachine::Handle(const Polled& event, TimeMs now, Actions& actions) {
  if (over()) {
    const std::string why = phase_ == Phase::kFinished
                                ? fmt::format("the run has finished after round {}", committed_round_)
                            : phase_ == Phase::kFailed ? "the run has failed: " + reason_
                                                       : "the run was stopped: " + reason_;
    actions.push_back(Refuse{event.client_id, "", Refuse::Why::kOver, why});
    return;
  }
  if (!knows(event.client_id)) {
    actions.push_back(Refuse{event.client_id, "", Refuse::Why::kUnknown,
                             fmt::format("client '{}' has not joined this run", event.client_id)});
    return;
  }
  if (phase_ == Phase::kWaiting) DrawCohort(now, actions);
  if (phase_ == Phase::kTraining) {
    Lease* lease = FindLeaseOf(event.client_id);
    // An upload that has begun may have been cut off: its client may need the task again to finish it.
    if (lease != nullptr && lease->state <= State::kStaging) {
      if (lease->state == State::kOffered) SetState(*lease, State::kTaken);
      actions.push_back(Offer{*lease, round(), attempt_, true});
      return;
    }
  }
  // Waiting clients together ask at most a thousand times a second.
  const int64_t wait_ms = std::clamp<int64_t>(known_clients(), 20, 10'000);
  actions.push_back(AskToWait{event.client_id, Awaited(), wait_ms});
}

void RunMachine::Handle(const StepReported& event, TimeMs, Actions& actions) {
  const auto refuse = [&](Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.client_id, event.task, why, std::move(reason)});
  };
  Lease* lease = FindLease(event.task);
  if (lease == nullptr || lease->client_id != event.client_id) {
    return refuse(Refuse::Why::kUnknown, fmt::format("client '{}' has no task '{}'", event.client_id, event.task));
  }
  if (lease->state == State::kFolded) return refuse(Refuse::Why::kDuplicate, "this update is folded already");
  if (lease->state == State::kFolding) return refuse(Refuse::Why::kBusy, "this update is being folded; ask again");
  if (lease->resolved()) return refuse(Refuse::Why::kLate, lease->reason);
  if (phase_ != Phase::kTraining) return refuse(Refuse::Why::kLate, "the run has ended");
  if (event.failed) {
    SetState(*lease, State::kFailed, event.reason.empty() ? "it gave no reason" : event.reason);
    CloseWhenResolved(actions);
    return;
  }
  SetState(*lease, State::kStaging);
  actions.push_back(Stage{event.task});
}

// Staging and checking took time, in which the round may have closed or filled. What counts is the state now.
void RunMachine::Handle(const StageDone& event, TimeMs, Actions& actions) {
  Lease* lease = FindLease(event.task);
  if (lease == nullptr || phase_ != Phase::kTraining || lease->state != State::kStaging) {
    const bool folded = lease != nullptr && (lease->state == State::kFolded || lease->state == State::kFolding);
    actions.push_back(Refuse{lease == nullptr ? "" : lease->client_id, event.task,
                             folded ? Refuse::Why::kDuplicate : Refuse::Why::kLate,
                             folded                                   ? "this update is folded already"
                             : lease == nullptr || !lease->resolved() ? "the run has ended"
                                                                      : lease->reason});
    return;
  }
  if (!event.ok) {
    SetState(*lease, State::kRefused, event.reason);
    CloseWhenResolved(actions);
    return;
  }
  // Those being folded count as folded: with only the folded ones counted, two that finish together would both be let
  // in.
  if (CountInState(State::kFolding) + CountInState(State::kFolded) >= rules_.dial.updates_per_version) {
    SetState(*lease, State::kDropped, "the round had enough updates without it");
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kLate, lease->reason});
    CloseWhenResolved(actions);
    return;
  }
  SetState(*lease, State::kFolding);
  actions.push_back(Fold{event.task});
}

void RunMachine::Handle(const FoldDone& event, TimeMs, Actions& actions) {
  Lease* lease = FindLease(event.task);
  if (lease == nullptr || lease->state != State::kFolding) return;
  SetState(*lease, event.ok ? State::kFolded : State::kRefused, event.ok ? "" : event.reason);
  if (phase_ == Phase::kTraining) CloseWhenResolved(actions);
}

// The machine does not move on until the disk has the round. Its own idea of the next round, drawn earlier, would be
// wrong after a failed commit.
void RunMachine::Handle(const CommitDone& event, TimeMs now, Actions& actions) {
  if (phase_ != Phase::kCommitting && phase_ != Phase::kAbandoning) return;
  const bool committed = phase_ == Phase::kCommitting;
  if (!event.ok) return End(Phase::kFailed, event.reason);
  ClearLeases();
  deadline_ = 0;
  if (committed) {
    ++committed_round_;
    attempt_ = 1;
    attempts_tried_ = 0;
    // Ordinals tell leases of one client at one version apart; a new version starts anew.
    ordinals_.clear();
    if (committed_round_ >= rules_.rounds) return End(Phase::kFinished, "");
  } else {
    if (attempts_tried_ >= rules_.max_attempts) return End(Phase::kFailed, reason_);
    ++attempt_;
    reason_.clear();
  }
  if (stopping_) return End(Phase::kStopped, "by its operator");
  phase_ = Phase::kWaiting;
  DrawCohort(now, actions);
}

void RunMachine::Handle(const Tick&, TimeMs now, Actions& actions) {
  if (phase_ == Phase::kWaiting) return DrawCohort(now, actions);
  if (phase_ != Phase::kTraining || deadline_ == 0) return;
  if (now < deadline_) {
    actions.push_back(WakeAt{deadline_});
    return;
  }
  DropOpenLeases(
      fmt::format("no update arrived before the deadline of {:g} s", static_cast<double>(rules_.deadline_ms) / 1000));
  CloseWhenResolved(actions);
}

// A round that is being committed is finished first: its updates are all in, and throwing them away would cost a round
// of every client.
void RunMachine::Handle(const Operator&, TimeMs, Actions&) {
  if (over()) return;
  stopping_ = true;
  if (phase_ == Phase::kWaiting || phase_ == Phase::kTraining) End(Phase::kStopped, "by its operator");
}

int64_t RunMachine::names_wanted() const { return std::max({int64_t{1}, rules_.min_clients, rules_.min_reports}); }

int64_t RunMachine::reports_wanted() const {
  if (rules_.min_reports > 0) return rules_.min_reports;
  return std::min(rules_.dial.updates_per_version, static_cast<int64_t>(leases_.size()));
}

std::pair<int64_t, int64_t> RunMachine::next_draw() const {
  // While nothing is drawn for this (round, attempt), it is the next draw; afterwards the next is a later one, and
  // whether that is an attempt or a round, it comes after (round, attempt + 1) in order.
  return {round(), phase_ == Phase::kWaiting ? attempt_ : attempt_ + 1};
}

std::string RunMachine::Awaited() const {
  switch (phase_) {
    case Phase::kWaiting:
      return fmt::format("{} of {} clients; round {} starts when all have joined", known_clients(), names_wanted(),
                         round());
    case Phase::kTraining: {
      const int64_t folded = CountInState(State::kFolded);
      return fmt::format("{} of {} updates of round {} are in; this client waits for the next selection", folded,
                         leases_.size(), round());
    }
    case Phase::kCommitting:
      return fmt::format("round {} is being committed; then comes the next selection", round());
    default:
      return fmt::format("round {} is being started again", round());
  }
}

void RunMachine::DrawCohort(TimeMs now, Actions& actions) {
  // After a restart the attempt that was cut off is drawn again from the names it was drawn from.
  std::vector<const std::string*> names;
  names.reserve(candidates_.size());
  for (const auto& [client_id, known] : candidates_) {
    if (std::pair(known.from_round, known.from_attempt) <= std::pair(round(), attempt_)) names.push_back(&client_id);
  }
  if (static_cast<int64_t>(names.size()) < names_wanted()) return;
  ++attempts_tried_;
  phase_ = Phase::kTraining;
  ClearLeases();
  for (std::string& client_id : SelectUniform(names, rules_.dial.in_flight, rules_.seed, round(), attempt_)) {
    Lease lease;
    lease.via = candidates_.at(client_id).via;
    lease.base_round = committed_round_;
    // The ordinal is in the task's name and in the stream of its randomness. An attempt that is run again under the
    // same number gives the same tasks, so that a client that still holds an update can submit it after a restart.
    lease.ordinal = static_cast<uint16_t>(ordinals_[client_id]++ % kMaxOrdinals);
    lease.task = fmt::format("{}-r{}-a{}-{}-{}", rules_.run_id, round(), attempt_, client_id, lease.ordinal);
    lease.client_id = std::move(client_id);
    AddLease(std::move(lease));
  }
  for (const Lease& lease : leases_) actions.push_back(Offer{lease, round(), attempt_, false});
  if (rules_.deadline_ms > 0) {
    deadline_ = now + rules_.deadline_ms;
    actions.push_back(WakeAt{deadline_});
  }
}

// A fold under way cannot be taken back; it ends as it ends.
void RunMachine::DropOpenLeases(const std::string& reason) {
  for (Lease& lease : leases_) {
    if (lease.resolved() || lease.state == State::kFolding) continue;
    SetState(lease, State::kDropped, reason);
  }
}

// The only place where an attempt ends, called after everything that may resolve a lease. It closes when nobody is
// awaited any more, and not when enough is there, because a fold may still be under way on another thread.
void RunMachine::CloseWhenResolved(Actions& actions) {
  if (CountInState(State::kFolded) >= rules_.dial.updates_per_version) {
    DropOpenLeases("the round had enough updates without it");
  }
  const int64_t open = CountInState(State::kOffered) + CountInState(State::kTaken) + CountInState(State::kStaging) +
                       CountInState(State::kFolding);
  if (open > 0) return;
  const int64_t folded = CountInState(State::kFolded), wanted = reports_wanted();
  actions.push_back(Close{round(), attempt_});
  if (folded >= wanted && folded > 0) {
    phase_ = Phase::kCommitting;
    Commit commit{round(), attempt_, {}};
    for (const Lease& lease : leases_) {
      if (lease.state == State::kFolded) commit.tasks.push_back(lease.task);
    }
    // Sorted, so that the action does not show the order in which updates came.
    std::sort(commit.tasks.begin(), commit.tasks.end());
    actions.push_back(std::move(commit));
    return;
  }
  phase_ = Phase::kAbandoning;
  const std::string reason =
      fmt::format("{} of {} updates that round {} needs arrived ({})", folded, wanted, round(), Complaints(leases_));
  const bool last = attempts_tried_ >= rules_.max_attempts;
  reason_ = fmt::format("round {} was given up after {} attempt{}; in the last, {}", round(), attempts_tried_,
                        attempts_tried_ == 1 ? "" : "s", reason);
  actions.push_back(Abandon{round(), attempt_, reason, last});
}

Lease* RunMachine::FindLease(const TaskId& task) {
  const auto found = lease_of_task_.find(task);
  return found == lease_of_task_.end() ? nullptr : &leases_[found->second];
}

const Lease* RunMachine::LeaseOf(const std::string& client_id) const {
  const auto found = lease_of_client_.find(client_id);
  return found == lease_of_client_.end() ? nullptr : &leases_[found->second];
}

Lease* RunMachine::FindLeaseOf(const std::string& client_id) { return const_cast<Lease*>(LeaseOf(client_id)); }

void RunMachine::AddLease(Lease lease) {
  ++counts_[static_cast<size_t>(lease.state)];
  lease_of_task_[lease.task] = leases_.size();
  lease_of_client_[lease.client_id] = leases_.size();
  leases_.push_back(std::move(lease));
}

void RunMachine::ClearLeases() {
  leases_.clear();
  counts_.fill(0);
  lease_of_task_.clear();
  lease_of_client_.clear();
}

void RunMachine::SetState(Lease& lease, State state, std::string reason) {
  --counts_[static_cast<size_t>(lease.state)];
  ++counts_[static_cast<size_t>(state)];
  lease.state = state;
  lease.reason = std::move(reason);
}

void RunMachine::End(Phase phase, std::string reason) {
  phase_ = phase;
  reason_ = std::move(reason);
  deadline_ = 0;
}

}  // namespace rivulet
