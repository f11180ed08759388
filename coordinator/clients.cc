// Polls and outcomes; admission is in joining.cc.
#include "coordinator/clients.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>

namespace rivulet {
namespace {

// Beside a count of the others: nobody else bounds what strangers write to the history.
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

// A poll costs a few lookups and, once per client and run, the row of a new name. Training and waiting hold no call
// open, so a coordinator's cost follows from polls and not from clients. Nobody leaves between its admission and its
// answer.
StatusOr<PollReply> Clients::Poll(const PollRequest& request) {
  const std::string& name = request.caller.name;
  const bool itself = request.serves.kind == Serves::Kind::kItself;
  PollReply reply;
  RIVULET_RETURN_IF_ERROR(Admit(request, &reply.refused_names));
  std::set<std::string_view> refused;
  for (const RefusedName& turned : reply.refused_names) refused.insert(turned.name);
  if (itself) (void)LastOutcome(name);  // from the history, where it must be asked
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

// Whoever hears that a task is durable drops what its client kept before: not while a version is measured with it.
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

// Looked up once per client, found or not: a thousand clients that poll a resumed run must not become a thousand
// queries a second. The disk may take long over one, and the history be in the middle of a transaction: nobody else is
// to wait for that.
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

// Memory is asked first and then the history.
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

// What a client has measured is of no use to it any more.
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

// What a site has not heard of the clients that it works for: how each of their tasks ended that is in no version, at
// once, and which are in a durable one, when it is. Only the newest is of use: a client's later task settles what came
// before it. So a site that asks no more costs little.
void Clients::TellSites(const PendingAttempt& attempt, bool durable) {
  constexpr size_t kMostUntold = 65'536;
  if (!parts_.keeps_state && aggregators_.empty()) return;
  for (auto& [site, outcome] : OutcomesOfSites(attempt.attempt, attempt.end)) {
    // Clients of an aggregator ask how their tasks ended.
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
