// Operators' requests to a run.
#include <algorithm>

#include "coordinator/rounds.h"

namespace rivulet {
namespace {

using Phase = RunMachine::Phase;

std::string_view PhaseWord(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
      return "waiting";
    case Phase::kTraining:
      return "training";
    case Phase::kCommitting:
    case Phase::kAbandoning:
      return "committing";
    case Phase::kEvaluating:
      return "measuring";
    case Phase::kFinished:
      return "finished";
    case Phase::kFailed:
      return "failed";
    case Phase::kStopped:
      return "stopped";
  }
  return "";
}

}  // namespace

bool Rounds::over() const {
  MutexLock lock(mutex_);
  return machine_.over();
}

bool Rounds::stopped() const {
  MutexLock lock(mutex_);
  return machine_.phase() == Phase::kStopped;
}

void Rounds::Steer(Steering steering) {
  const auto [command, sentence] = [&]() -> std::pair<Operator::Command, std::string_view> {
    switch (steering) {
      case Steering::kPause:
        return {Operator::Command::kPause, "paused by an operator: no client is selected until the run is resumed"};
      case Steering::kResume:
        return {Operator::Command::kResume, "resumed by an operator"};
      case Steering::kFinish:
        return {Operator::Command::kFinishRound, "an operator ends the run once the open round is committed"};
      case Steering::kStop:
        break;
    }
    return {Operator::Command::kStop, "an operator ends the run at once"};
  }();
  {
    MutexLock lock(mutex_);
    if (machine_.over()) return;
    const bool ends = steering == Steering::kFinish || steering == Steering::kStop;
    if (ends) begun_ = true;  // a run without any caller can end too
    events_.Say(events_.Note("info", std::string(sentence), machine_.round()));
    Feed(Operator{command});
    changed_.NotifyAll();
  }
}

// The client's upload under way is cut off, because its end would only be refused.
void Rounds::Leave(const std::string& client_id, const std::string& reason) {
  MutexLock lock(mutex_);
  std::vector<TaskId> tasks;
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const Lease* const lease = machine_.LeaseOf(client_id, kind);
    if (lease != nullptr && !lease->resolved()) tasks.push_back(lease->task);
  }
  sent_away_ = true;
  Feed(ClientLeft{client_id, reason});
  for (const TaskId& task : tasks) {
    const Lease* const lease = machine_.FindLease(task);
    if (lease == nullptr || lease->state == Lease::State::kDropped) intake_.Cancel(task, reason);
  }
}

void Rounds::LoseSite(const std::string& site) {
  MutexLock lock(mutex_);
  if (!machine_.over()) Feed(SiteLost{site});
}

void Rounds::Stop() {
  MutexLock lock(mutex_);
  begun_ = true;
  changed_.NotifyAll();
  Feed(Operator{});
}

// Each text gives the reason of a wait, and its end.
std::string Rounds::WhatIsAwaited() {
  if (machine_.over()) return machine_.reason();
  if (machine_.phase() != Phase::kTraining) return machine_.Awaited(clock_.Now());
  std::string first;
  int64_t awaited = 0;
  for (const Lease& lease : machine_.leases()) {
    if (lease.resolved() || lease.state == Lease::State::kHeld) continue;
    if (awaited++ == 0) first = lease.client_id;
  }
  const auto asked = static_cast<int64_t>(machine_.leases().size());
  std::string text =
      fmt::format("{} of {} updates of round {} are in",
                  machine_.CountInState(Lease::State::kFolded) + machine_.CountInState(Lease::State::kHeld), asked,
                  machine_.round());
  if (awaited > 0) text += fmt::format("; waiting for client '{}'", first);
  if (awaited > 1) text += fmt::format(" and {} more", awaited - 1);
  if (const TimeMs deadline = machine_.deadline(); deadline != 0 && awaited > 0) {
    text += fmt::format(", at most {} s more", std::max<int64_t>(deadline - clock_.Now(), 0) / 1000);
  }
  if (machine_.stopping()) text += "; then the run ends";
  if (machine_.paused()) text += "; then it is paused";
  return text;
}

RunStatus Rounds::Standing() {
  MutexLock lock(mutex_);
  RunStatus standing;
  RunState& state = standing.state;
  state.run_id = run_id_;
  state.name = options_.scenario.run.name;
  state.state = PhaseWord(machine_.phase());
  state.paused = machine_.paused();
  state.stopping = machine_.stopping() && !machine_.over();
  state.awaits = WhatIsAwaited();
  state.rounds = options_.scenario.run.rounds;
  state.round = machine_.over() ? machine_.committed_round() : std::min(machine_.round(), state.rounds);
  state.attempt = machine_.attempt();
  state.folded = machine_.CountInState(Lease::State::kFolded) + machine_.CountInState(Lease::State::kHeld);
  state.clients = machine_.known_clients();
  standing.totals = totals_;
  const int64_t ago = clock_.UnixMs() - clock_.Now();
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const std::vector<Lease> leases = machine_.leases(kind);
    if (kind == TaskKind::kTrain) state.selected = std::ssize(leases);
    if (machine_.over()) continue;
    for (const Lease& lease : leases) {
      if (lease.resolved()) continue;
      const TaskEntry* const entry = EntryOf(lease.task);
      const TimeMs since = entry == nullptr ? 0 : entry->taken ? *entry->taken : entry->offered;
      standing.work.push_back({.client_id = lease.client_id,
                               .via = lease.via,
                               .task = lease.task,
                               .round = kind == TaskKind::kTrain ? lease.base_round + 1 : lease.base_round,
                               .state = std::string(Name(lease.state)),
                               .since_unix_ms = since == 0 ? 0 : since + ago});
    }
  }
  return standing;
}

}  // namespace rivulet
