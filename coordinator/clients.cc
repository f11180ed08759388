// Polls and outcomes; admission is in joining.cc.
#include "coordinator/clients.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>

namespace rivulet {
namespace {

// Rows per minute, besides a count of the rest: no other limit bounds how much strangers write to the history.
constexpr size_t kMostRefusalsInAMinute = 1;

TaskOutcome OutcomeOf(const ClientRoundRow& row) {
  TaskOutcome outcome{row.task_id, TaskEnd::kDropped, row.error, row.status == Name(TaskEnd::kFolded)};
  for (const TaskEnd end : {TaskEnd::kFolded, TaskEnd::kRefused, TaskEnd::kFailed}) {
    if (row.status == Name(end)) outcome.end = end;
  }
  return outcome;
}

}  // namespace

Clients::Clients(std::string run_id, const CoordinatorOptions& options, const RunParts& parts, bool resumed,
                 RunHistory& history, const RunClock& clock, RunEvents& events, const DistrustedSites& distrusted,
                 ClientRounds& rounds)
    : run_id_(std::move(run_id)),
      options_(options),
      parts_(parts),
      resumed_(resumed),
      history_(history),
      clock_(clock),
      events_(events),
      distrusted_(distrusted),
      rounds_(rounds),
      joining_([this](const std::vector<JoiningNames::Name>& names) { return WriteNames(names); }),
      refusals_(
          [this](const std::string& sentence) { events_.Tell(events_.Note("warning", sentence, rounds_.Round())); },
          [this] { return RateLimitedLog::Clock::time_point(std::chrono::milliseconds(clock_.UnixMs())); },
          kMostRefusalsInAMinute) {}

// A poll costs a few lookups and, once per client and run, the row of a new name. No call stays open during training or
// waiting, so a coordinator's cost depends on polls, not on clients. A client cannot leave between its admission and
// its answer.
StatusOr<PollReply> Clients::Poll(const PollRequest& request) {
  const std::string& name = request.caller.name;
  const bool itself = request.serves.kind == Serves::Kind::kItself;
  PollReply reply;
  RIVULET_RETURN_IF_ERROR(Admit(request, &reply.refused_names));
  std::set<std::string_view> refused;
  for (const RefusedName& turned : reply.refused_names) refused.insert(turned.name);
  if (itself) (void)LastOutcome(name);  // from the history, if it must be queried
  for (;;) {
    rounds_.AwaitRecovered();
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(distrusted_.Check(request.caller));
    if (itself && !rounds_.ViaOf(name).empty()) (void)rounds_.Join({name}, "");
    if (!rounds_.Answer(request, refused, &reply)) continue;
    TakeOutcomes(request, &reply);
    return reply;
  }
}

// A client that learns that a task is durable drops its earlier state, so not while a version is measured with that.
void Clients::TakeOutcomes(const PollRequest& request, PollReply* reply) {
  const auto early = [this](const TaskOutcome& outcome) {
    return outcome.durable && rounds_.Superseding(outcome.task);
  };
  const std::string& name = request.caller.name;
  if (request.serves.kind == Serves::Kind::kItself) {
    if (!rounds_.Knows(name)) return;
    book_.Saw(name, clock_.UnixMs());
    if (const TaskOutcome* const last = book_.LastOutcome(name); last != nullptr) {
      reply->outcomes.push_back(*last);
      reply->outcomes.back().durable &= !early(*last);
    }
  } else if (const auto untold = untold_.find(name); untold != untold_.end()) {
    std::vector<TaskOutcome>& outcomes = untold->second;
    const auto later = std::stable_partition(outcomes.begin(), outcomes.end(), std::not_fn(early));
    reply->outcomes.assign(std::make_move_iterator(outcomes.begin()), std::make_move_iterator(later));
    outcomes.erase(outcomes.begin(), later);
  }
}

bool Clients::Remove(const std::string& client_id, const std::string& reason) {
  MutexLock lock(mutex_);
  if (!rounds_.Knows(client_id)) return false;
  if (rounds_.Over()) return true;
  events_.Say(events_.NoteOf(client_id, "warning", fmt::format("client '{}' is refused: {}", client_id, reason),
                             rounds_.Round()));
  rounds_.Leave(client_id, reason);
  book_.Left(client_id);
  return true;
}

// Queried once per client, found or not: a thousand clients that poll a resumed run must not cause a thousand
// queries a second. The disk may be slow, and the history inside a transaction; no other client waits for
// that.
std::optional<TaskOutcome> Clients::LastOutcome(const std::string& client_id) {
  bool asks = false;
  {
    MutexLock lock(mutex_);
    asks = resumed_ && rounds_.Knows(client_id) && book_.ShouldLookUp(client_id);
  }
  const auto row = asks ? history_.WhileOpen([&] { return history_->LastTask(run_id_, client_id); }) : std::nullopt;
  MutexLock lock(mutex_);
  if (row && row->ok() && (*row)->has_value() && book_.LastOutcome(client_id) == nullptr) {
    book_.Remember(client_id, OutcomeOf(***row));
  }
  const TaskOutcome* const last = book_.LastOutcome(client_id);
  return last == nullptr ? std::nullopt : std::optional(*last);
}

// Memory is checked first, then the history.
StatusOr<SubmitResult> Clients::ResultOf(const std::string& client_id, const TaskId& task, const std::string& reason) {
  std::optional<TaskOutcome> outcome = LastOutcome(client_id);
  if ((!outcome || outcome->task != task) && rounds_.Knows(client_id)) {
    const auto row = history_.WhileOpen([&] { return history_->FindTask(task); });
    if (row) {
      RIVULET_RETURN_IF_ERROR(row->status());
      const std::optional<ClientRoundRow>& found = **row;
      if (found && found->client_id == client_id && found->run_id == run_id_) outcome = OutcomeOf(*found);
    }
  }
  if (!outcome || outcome->task != task) return NotFound("{}", reason);
  if (outcome->end == TaskEnd::kFolded) return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
  return SubmitResult{SubmitResult::Kind::kRefused, outcome->reason};
}

// Outcomes of evaluations are of no use to clients.
void Clients::Closed(const PendingAttempt& attempt, std::vector<std::pair<std::string, TaskOutcome>> outcomes) {
  if (attempt.attempt.kind != TaskKind::kTrain) return;
  MutexLock lock(mutex_);
  TellSites(attempt, false);
  for (auto& [client_id, outcome] : outcomes) book_.Remember(client_id, std::move(outcome));
}

void Clients::Written(const PendingAttempt& attempt) {
  if (attempt.end.status != "committed") return;
  MutexLock lock(mutex_);
  for (const auto& [lease, facts] : attempt.attempt.tasks) {
    const bool folded = lease.state == Lease::State::kFolded;
    if (folded && !lease.served_by_another()) book_.IsDurable(lease.client_id, lease.task);
  }
  TellSites(attempt, true);
}

// Outcomes that a site has not received for the clients that it serves: at once for tasks that are in no version, and
// for the others once their version is durable. Only the newest per client is kept, since a later task settles earlier
// ones. So a site that polls no more costs little.
void Clients::TellSites(const PendingAttempt& attempt, bool durable) {
  constexpr size_t kMostUntold = 65'536;
  if (!parts_.keeps_state && aggregators_.empty()) return;
  for (auto& [site, outcome] : OutcomesOfSites(attempt.attempt, attempt.end)) {
    // Clients of an aggregator ask for the outcomes of their tasks.
    if (!parts_.keeps_state && !aggregators_.contains(site)) continue;
    if ((outcome.end == TaskEnd::kFolded) != durable) continue;
    std::vector<TaskOutcome>& untold = untold_[site];
    if (untold.size() >= kMostUntold) untold.clear();
    outcome.durable = durable;
    untold.push_back(std::move(outcome));
  }
}

std::vector<std::pair<std::string, int64_t>> Clients::TakeSeen(const ClosedAttempt& attempt, bool finishes_run) {
  MutexLock lock(mutex_);
  return book_.TakeSeen(attempt, clock_.UnixMs(), finishes_run);
}

bool Clients::has_aggregators() const {
  MutexLock lock(mutex_);
  return !aggregators_.empty();
}

}  // namespace rivulet
