#include "coordinator/rounds/run_machine.h"

#include <algorithm>

#include "coordinator/selection/uniform.h"

namespace rivulet {
namespace {

using State = Lease::State;

constexpr int64_t kMaxRounds = (int64_t{1} << 32) - 1;  // a round is a word of the random counter
constexpr int64_t kMaxOrdinals = 65536;                 // an ordinal is 16 bits of it

constexpr int64_t kSiteForgottenMs = 60'000;  // a site that has not polled for so long takes no share
constexpr std::string_view kEnough = "the round had enough updates without it";

// Whether the lease may be in the partial of a site by now, although the site has not said so.
bool Promised(const Lease& lease) {
  return (lease.state == State::kTaken || lease.state == State::kStaging) && lease.site != lease.client_id;
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
  // A site of many names may have folded it by now, and its other tasks with it.
  if (!lease->site.empty() && lease->site != lease->client_id) return;
  SetState(*lease, State::kDropped, "it left the run");
  CloseWhenResolved(actions);
}

void RunMachine::Handle(const Polled& event, TimeMs now, Actions& actions) {
  Handle(SitePolled{event.client_id}, now, actions);
}

// What a site says comes before what it gets: the last held lease may be what the attempt has waited for.
void RunMachine::Handle(const SitePolled& event, TimeMs now, Actions& actions) {
  const bool itself = event.serves == SitePolled::Serves::kItself;
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
  if (!itself) {
    sites_[event.site] = now;
    std::erase_if(sites_, [now](const auto& site) { return now - site.second > kSiteForgottenMs; });
  }
  if (phase_ == Phase::kWaiting) DrawCohort(now, actions);

  std::set<size_t> named;
  bool holds_more = false;
  for (const SitePolled::Holding& holding : event.working_on) {
    Lease* lease = FindLease(holding.task);
    if (lease == nullptr || lease->resolved() || lease->site != event.site) {
      actions.push_back(Cancel{holding.task});
      continue;
    }
    named.insert(IndexOf(*lease));
    if (holding.held && !itself && lease->state == State::kTaken) {
      SetState(*lease, State::kHeld);
      holds_more = true;
    }
  }
  size_t answers = actions.size();
  if (phase_ == Phase::kTraining) {
    // Asked before: this poll's answer says it again. Otherwise it may be asked now, together with all others.
    if (asked_) AskHolders(&event.site, actions);
    if (holds_more) CloseWhenResolved(actions);
    GiveLeases(event, named, actions);
  }
  for (; answers < actions.size(); ++answers) {
    const auto* asked = std::get_if<HandOverPartial>(&actions[answers]);
    if (std::holds_alternative<Offer>(actions[answers]) || (asked != nullptr && asked->site == event.site)) return;
  }
  // Waiting sites together ask at most a thousand times a second.
  const int64_t waiting = itself ? known_clients() : static_cast<int64_t>(sites_.size());
  actions.push_back(AskToWait{event.site, Awaited(), std::clamp<int64_t>(waiting, 20, 10'000)});
}

// First what the site has had and no longer knows of. Then new ones: half of an even share of what is left, so that the
// last of a cohort are spread over all sites, and nobody waits long for one that took many.
void RunMachine::GiveLeases(const SitePolled& poll, const std::set<size_t>& named, Actions& actions) {
  int64_t want = poll.want;
  const auto give = [&](size_t index) {
    actions.push_back(Offer{leases_[index], round(), attempt_, true});
    --want;
  };
  // An upload that has begun may have been cut off: its client may need the task again to finish it.
  if (const auto in_hand = in_hand_.find(poll.site); in_hand != in_hand_.end()) {
    for (const size_t index : in_hand->second) {
      if (want > 0 && !named.contains(index)) give(index);
    }
  }
  if (poll.serves == SitePolled::Serves::kItself) {
    Lease* lease = FindLeaseOf(poll.site);
    if (want > 0 && lease != nullptr && lease->state == State::kOffered) {
      Take(*lease, poll.site);
      give(IndexOf(*lease));
    }
    return;
  }
  const int64_t even = CountInState(State::kOffered) / (2 * static_cast<int64_t>(sites_.size()));
  int64_t share = std::min({want, std::max<int64_t>(even, 1), Room()});
  for (; share > 0 && next_offered_ < leases_.size(); ++next_offered_) {
    Lease& lease = leases_[next_offered_];
    if (lease.state != State::kOffered) continue;
    Take(lease, poll.site);
    give(next_offered_);
    --share;
  }
}

void RunMachine::Handle(const StepReported& event, TimeMs, Actions& actions) {
  const auto refuse = [&](Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.client_id, event.task, why, std::move(reason)});
  };
  Lease* lease = FindLease(event.task);
  if (lease == nullptr || event.client_id != (lease->site.empty() ? lease->client_id : lease->site)) {
    return refuse(Refuse::Why::kUnknown, fmt::format("client '{}' has no task '{}'", event.client_id, event.task));
  }
  if (lease->state == State::kFolded) return refuse(Refuse::Why::kDuplicate, "this update is folded already");
  if (lease->state == State::kFolding) return refuse(Refuse::Why::kBusy, "this update is being folded; ask again");
  if (lease->resolved()) return refuse(Refuse::Why::kLate, lease->reason);
  if (phase_ != Phase::kTraining) return refuse(Refuse::Why::kLate, "the run has ended");
  if (lease->state == State::kHeld && !event.failed) {
    return refuse(Refuse::Why::kDuplicate, "this update is in its site's partial already");
  }
  if (event.failed) {
    SetState(*lease, State::kFailed, event.reason.empty() ? "it gave no reason" : event.reason);
    CloseWhenResolved(actions);
    return;
  }
  if (lease->state == State::kOffered) Take(*lease, event.client_id);
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
  if (Room() + (Promised(*lease) ? 1 : 0) <= 0) {
    SetState(*lease, State::kDropped, std::string(kEnough));
    actions.push_back(Refuse{lease->client_id, event.task, Refuse::Why::kLate, lease->reason});
    CloseWhenResolved(actions);
    return;
  }
  SetState(*lease, State::kFolding);
  actions.push_back(Fold{event.task});
}

void RunMachine::Handle(const FoldDone& event, TimeMs now, Actions& actions) {
  Handle(Merged{{event.task}, event.ok, event.reason}, now, actions);
}

// A partial is taken as a whole or not at all, as nothing can be taken out of a sum whose addends are gone. After a
// refusal its leases are as before: a site that cannot bring them otherwise says that they have failed.
void RunMachine::Handle(const PartialReported& event, TimeMs, Actions& actions) {
  const auto refuse = [&](const TaskId& task, Refuse::Why why, std::string reason) {
    actions.push_back(Refuse{event.site, task, why, std::move(reason)});
  };
  if (event.tasks.empty()) {
    return refuse("", Refuse::Why::kUnknown, fmt::format("site '{}' brings a partial of no task", event.site));
  }
  std::vector<Lease*> leases;
  int64_t promised = 0;  // of them, in Room() already
  for (const TaskId& task : event.tasks) {
    Lease* lease = FindLease(task);
    if (lease == nullptr || lease->site != event.site) {
      return refuse(task, Refuse::Why::kUnknown, fmt::format("site '{}' has no task '{}'", event.site, task));
    }
    if (lease->state == State::kFolded) return refuse(task, Refuse::Why::kDuplicate, "this update is folded already");
    if (lease->state == State::kFolding || lease->state == State::kStaging) {
      return refuse(task, Refuse::Why::kBusy, "this update is being folded; ask again");
    }
    if (lease->resolved()) return refuse(task, Refuse::Why::kLate, lease->reason);
    if (lease->state == State::kHeld || Promised(*lease)) ++promised;
    leases.push_back(lease);
  }
  std::vector<Lease*> sorted = leases;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return refuse((*twice)->task, Refuse::Why::kUnknown,
                  fmt::format("a partial names task '{}' twice", (*twice)->task));
  }
  if (phase_ != Phase::kTraining) return refuse(event.tasks[0], Refuse::Why::kLate, "the run has ended");
  // Only of a client's own partial: a site of many names was given no more than there is room for.
  if (Room() + promised < static_cast<int64_t>(leases.size())) {
    for (Lease* lease : leases) SetState(*lease, State::kDropped, std::string(kEnough));
    refuse(event.tasks[0], Refuse::Why::kLate, std::string(kEnough));
    return CloseWhenResolved(actions);
  }
  for (Lease* lease : leases) {
    SetState(*lease, State::kFolding);
    actions.push_back(Fold{lease->task});
  }
}

void RunMachine::Handle(const Merged& event, TimeMs, Actions& actions) {
  bool moved = false;
  for (const TaskId& task : event.tasks) {
    Lease* lease = FindLease(task);
    if (lease == nullptr || lease->state != State::kFolding) continue;
    SetState(*lease, event.ok ? State::kFolded : State::kRefused, event.ok ? "" : event.reason);
    moved = true;
  }
  if (moved && phase_ == Phase::kTraining) CloseWhenResolved(actions);
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

void RunMachine::DropOffered(const std::string& reason) {
  for (; next_offered_ < leases_.size(); ++next_offered_) {
    if (leases_[next_offered_].state == State::kOffered) SetState(leases_[next_offered_], State::kDropped, reason);
  }
}

// A fold under way cannot be taken back; it ends as it ends.
void RunMachine::DropOpenLeases(const std::string& reason) {
  for (Lease& lease : leases_) {
    if (lease.resolved() || lease.state == State::kFolding) continue;
    SetState(lease, State::kDropped, reason);
  }
}

// In the order of their names, so that the actions are a function of what is held.
void RunMachine::AskHolders(const std::string* site, Actions& actions) const {
  std::map<std::string_view, std::vector<TaskId>> held;
  for (const Lease& lease : leases_) {
    if (lease.state == State::kHeld && (site == nullptr || lease.site == *site)) {
      held[lease.site].push_back(lease.task);
    }
  }
  for (auto& [holder, tasks] : held) {
    actions.push_back(HandOverPartial{std::string(holder), GatherOf(round(), attempt_), std::move(tasks)});
  }
}

// Those being folded count as folded: with only the folded ones counted, two that finish together would both be let in.
// Those that are held count too, and those that a site of many names works on: they come as one, and none of them could
// be left out any more.
int64_t RunMachine::Room() const {
  return rules_.dial.updates_per_version - CountInState(State::kFolded) - CountInState(State::kFolding) -
         CountInState(State::kHeld) - promised_;
}

// The only place where an attempt ends, called after everything that may resolve a lease. It closes when nobody is
// awaited any more, and not when enough is there, because a fold may still be under way on another thread. Sites that
// hold partials are asked for them when nothing else is awaited: each brings one, and not one after every few tasks.
void RunMachine::CloseWhenResolved(Actions& actions) {
  const int64_t enough = rules_.dial.updates_per_version;
  if (CountInState(State::kFolded) >= enough) {
    DropOpenLeases(std::string(kEnough));
  } else if (CountInState(State::kFolded) + CountInState(State::kHeld) >= enough) {
    DropOffered(std::string(kEnough));
  }
  const int64_t held = CountInState(State::kHeld);
  const int64_t out = CountInState(State::kOffered) + CountInState(State::kTaken) + CountInState(State::kStaging);
  if (held > 0 && !asked_ && (out == 0 || CountInState(State::kFolded) + held >= enough)) {
    asked_ = true;
    AskHolders(nullptr, actions);
  }
  if (out + held + CountInState(State::kFolding) > 0) return;
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

// Everything that is derived from a lease, beside where to find it.
void RunMachine::Count(const Lease& lease, int64_t change) {
  counts_[static_cast<size_t>(lease.state)] += change;
  if (Promised(lease)) promised_ += change;
  if (lease.state != State::kTaken && lease.state != State::kStaging) return;
  if (change > 0) {
    in_hand_[lease.site].insert(IndexOf(lease));
  } else {
    in_hand_[lease.site].erase(IndexOf(lease));
  }
}

void RunMachine::AddLease(Lease lease) {
  lease_of_task_[lease.task] = leases_.size();
  lease_of_client_[lease.client_id] = leases_.size();
  leases_.push_back(std::move(lease));
  Count(leases_.back(), 1);
}

void RunMachine::Take(Lease& lease, const std::string& site) {
  lease.site = site;
  SetState(lease, State::kTaken);
}

void RunMachine::ClearLeases() {
  leases_.clear();
  asked_ = false;
  counts_.fill(0);
  promised_ = 0;
  next_offered_ = 0;
  in_hand_.clear();
  lease_of_task_.clear();
  lease_of_client_.clear();
}

void RunMachine::SetState(Lease& lease, State state, std::string reason) {
  Count(lease, -1);
  lease.state = state;
  Count(lease, 1);
  lease.reason = std::move(reason);
}

void RunMachine::End(Phase phase, std::string reason) {
  phase_ = phase;
  reason_ = std::move(reason);
  deadline_ = 0;
}

}  // namespace rivulet
