#include "coordinator/ledger/ledger.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "federated/aggregation/aggregation_spec.h"
#include "federated/aggregation/wide_sum.h"

namespace rivulet {
namespace {

// How a lease of a closed attempt ended.
TaskEnd EndOf(const Lease& lease) {
  switch (lease.state) {
    case Lease::State::kFolded:
      return TaskEnd::kFolded;
    case Lease::State::kRefused:
      return TaskEnd::kRefused;
    case Lease::State::kFailed:
      return TaskEnd::kFailed;
    default:
      return TaskEnd::kDropped;
  }
}

std::optional<double> SecondsBetween(std::optional<TimeMs> begin, std::optional<TimeMs> end) {
  return begin && end ? std::optional(static_cast<double>(*end - *begin) / 1000) : std::nullopt;
}

ClientRoundRow RowOf(const ClosedAttempt& attempt, const ClosedAttempt::ClosedTask& task) {
  const auto& [lease, facts] = task;
  ClientRoundRow row;
  row.result() = facts;
  row.task_id = lease.task;
  row.run_id = attempt.run_id;
  row.round = attempt.round;
  row.attempt = attempt.number;
  row.client_id = lease.client_id;
  row.kind = Name(attempt.kind);
  row.status = Name(EndOf(lease));
  row.base_round = lease.base_round;
  row.parent_id = lease.via;
  row.wait_seconds = SecondsBetween(facts.offered, facts.taken);
  row.upload_seconds = SecondsBetween(facts.upload_began, facts.uploaded);
  row.error = lease.reason;
  return row;
}

// Tasks in the order of names, as in the rows.
std::vector<const ClosedAttempt::ClosedTask*> InOrder(const ClosedAttempt& attempt) {
  std::vector<const ClosedAttempt::ClosedTask*> tasks;
  tasks.reserve(attempt.tasks.size());
  for (const ClosedAttempt::ClosedTask& task : attempt.tasks) tasks.push_back(&task);
  std::sort(tasks.begin(), tasks.end(), [](const auto* a, const auto* b) {
    return std::tie(a->lease.client_id, a->lease.ordinal) < std::tie(b->lease.client_id, b->lease.ordinal);
  });
  return tasks;
}

std::vector<std::pair<std::string, TaskOutcome>> LastWords(const ClosedAttempt& attempt, const AttemptEnd& end,
                                                           bool of_sites) {
  std::vector<std::pair<std::string, TaskOutcome>> outcomes;
  outcomes.reserve(attempt.tasks.size());
  for (const auto& [lease, facts] : attempt.tasks) {
    if (lease.served_by_another() != of_sites) continue;
    TaskOutcome outcome{lease.task, EndOf(lease), lease.reason};
    if (outcome.end == TaskEnd::kFolded && end.status != "committed" && end.status != "measured") {
      outcome.end = TaskEnd::kDropped;
      outcome.reason = attempt.kind == TaskKind::kEvaluate
                           ? fmt::format("version {} was not measured: {}", attempt.round, end.reason)
                       : end.status == "abandoned"
                           ? fmt::format("the round was abandoned: {}", end.reason)
                           : fmt::format("round {} cannot be committed: {}", attempt.round, end.reason);
    }
    outcomes.emplace_back(of_sites ? lease.site : lease.client_id, std::move(outcome));
  }
  return outcomes;
}

// Adds a cohort's measures: those of each client and those over all.
void AddMeasures(const ClosedAttempt& attempt, const AttemptEnd& end,
                 std::span<const ClosedAttempt::ClosedTask* const> tasks, AttemptRecord& record) {
  const auto add = [&](const char* scope, const std::string& client_id, const Measures& measures) {
    for (const auto& [name, measure] : measures) {
      record.metrics.push_back(
          {attempt.run_id, attempt.round, scope, client_id, name, measure.value, measure.right, measure.total});
    }
  };
  std::vector<const Measures*> clients;
  int64_t with_own = 0, asked = 0;
  for (const ClosedAttempt::ClosedTask* task : tasks) {
    if (EndOf(task->lease) != TaskEnd::kFolded) continue;
    const Measures& measures = task->facts.measures;
    clients.push_back(&measures);
    add("client", task->lease.client_id, measures);
    if (const auto own = measures.find(kPersonalTrained); own != measures.end()) {
      with_own += own->second.right.value_or(0);
      ++asked;
    }
  }
  add("federated", "", end.federated);
  if (asked > 0) add("federated", "", {{kPersonalTrained, Measure::Rate(with_own, asked)}});
  add("federated", "", Distribution(clients));
}

// Adds the values that graphs of a training declared. A client's later task replaces its earlier one.
void AddDeclared(const ClosedAttempt& attempt, std::span<const ClosedAttempt::ClosedTask* const> tasks,
                 AttemptRecord& record) {
  // As in most plans; sorting a thousand names would be wasted.
  if (std::ranges::all_of(tasks, [](const auto* task) { return task->facts.measures.empty(); })) return;
  std::map<std::string_view, const Measures*> clients;
  for (const ClosedAttempt::ClosedTask* task : tasks) {
    if (EndOf(task->lease) == TaskEnd::kFolded) clients[task->lease.client_id] = &task->facts.measures;
  }
  for (const auto& [client, measures] : clients) {
    for (const auto& [name, measure] : *measures) {
      record.metrics.push_back(
          {attempt.run_id, attempt.round, "client", std::string(client), name, measure.value, {}, {}});
    }
  }
}

// Adds the settings of devices that trained.
void AddDevice(const ClosedAttempt& attempt, std::span<const ClosedAttempt::ClosedTask* const> tasks,
               AttemptRecord& record) {
  int64_t lanes = 0, tf32 = 0;
  for (const ClosedAttempt::ClosedTask* task : tasks) {
    lanes = std::max(lanes, task->facts.lanes);
    tf32 += task->facts.tf32 && EndOf(task->lease) == TaskEnd::kFolded ? 1 : 0;
  }
  for (const auto& [name, value] : {std::pair{kDeviceLanes, lanes}, std::pair{kDeviceTf32, tf32}}) {
    if (value == 0) continue;
    record.metrics.push_back(
        {attempt.run_id, attempt.round, "federated", "", name, static_cast<double>(value), {}, {}});
  }
}

}  // namespace

RoundRow RoundOf(const ClosedAttempt& attempt, const AttemptEnd& end) {
  RoundRow round;
  round.run_id = attempt.run_id;
  round.round = attempt.round;
  round.attempt = attempt.number;
  round.status = end.status == "measured" ? "committed" : end.status;
  round.reason = end.reason;
  round.started_at = Iso8601(attempt.started_unix_ms);
  round.finished_at = Iso8601(end.finished_unix_ms);
  round.selected = static_cast<int64_t>(attempt.tasks.size());
  const double seconds = static_cast<double>(attempt.closed - attempt.started) / 1000;
  const bool trains = attempt.kind == TaskKind::kTrain;
  round.train_seconds = trains ? seconds : 0;
  round.aggregate_seconds = end.aggregate_seconds;
  round.evaluate_seconds = trains ? end.evaluate_seconds : seconds;
  if (end.model_digest) round.model_digest = end.model_digest->Hex();
  if (end.spend) {
    round.noise_multiplier = end.spend->noise_multiplier;
    round.sampling_rate = end.spend->sampling_rate;
    round.delta = end.spend->delta;
    if (std::isfinite(end.spend->epsilon)) round.epsilon = end.spend->epsilon;  // infinite: it is unbounded
    if (std::isfinite(end.spend->participant_epsilon)) round.participant_epsilon = end.spend->participant_epsilon;
  }
  // Summed exactly, so that the order has no effect.
  WideSum loss_sum;
  int64_t loss_examples = 0;
  for (const auto& [lease, facts] : attempt.tasks) {
    round.bytes_down += facts.bytes_down;
    round.bytes_up += facts.bytes_up;
    switch (EndOf(lease)) {
      case TaskEnd::kFolded:
        ++round.folded;
        round.examples += facts.examples.value_or(0);
        if (facts.train_loss && WideSum::Takes(*facts.train_loss)) {
          const int64_t examples = std::clamp<int64_t>(facts.examples.value_or(0), 0, kMaxWeight);
          loss_sum.Add(WideSum::Of(examples, *facts.train_loss));
          loss_examples += examples;
        }
        break;
      case TaskEnd::kRefused:
        ++round.refused;
        break;
      case TaskEnd::kFailed:
        ++round.failed;
        break;
      case TaskEnd::kDropped:
        ++round.dropped;
    }
  }
  round.reported = round.folded + round.refused;
  if (loss_examples > 0) round.train_loss = loss_sum.ToDouble() / static_cast<double>(loss_examples);
  return round;
}

// Rows are made at the end, not as events happen: one transaction holds a whole attempt or nothing of it, and no reader
// sees half a round.
AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end) {
  return RowsOf(attempt, end, RoundOf(attempt, end));
}

AttemptRecord RowsOf(const ClosedAttempt& attempt, const AttemptEnd& end, RoundRow round) {
  const bool committed = end.status == "committed" || end.status == "measured";
  const std::vector<const ClosedAttempt::ClosedTask*> tasks = InOrder(attempt);
  AttemptRecord record;
  record.round = std::move(round);
  record.kind = Name(attempt.kind);
  record.finishes_run = end.finishes_run;
  record.events = EventsOf(attempt, end);
  const bool trains = attempt.kind == TaskKind::kTrain;
  record.tasks.reserve(tasks.size());
  for (const ClosedAttempt::ClosedTask* task : tasks) {
    ClientRoundRow& row = record.tasks.emplace_back(RowOf(attempt, *task));
    if (EndOf(task->lease) != TaskEnd::kFolded) continue;
    if (!committed) {
      row.status = Name(TaskEnd::kDropped);  // its update is in no model
      row.error = fmt::format("{} was {}", trains ? "the round" : "the evaluation", end.status);
    } else if (trains) {
      row.committed_round = attempt.round;
      row.staleness = attempt.round - 1 - task->lease.base_round;
    }
  }
  if (!trains && committed) AddMeasures(attempt, end, tasks, record);
  if (trains && committed) AddDeclared(attempt, tasks, record);
  if (end.virtual_seconds && committed) {
    record.metrics.push_back(
        {attempt.run_id, attempt.round, "federated", "", kVirtualSeconds, end.virtual_seconds, {}, {}});
  }
  if (trains && committed) AddDevice(attempt, tasks, record);
  if (trains && committed && end.clip) {
    record.metrics.push_back({attempt.run_id, attempt.round, "federated", "", kClipOfRound, end.clip, {}, {}});
  }
  for (const auto& [name, measure] : end.central) {
    record.metrics.push_back(
        {attempt.run_id, attempt.round, "central", "", name, measure.value, measure.right, measure.total});
  }
  return record;
}

std::vector<EventRow> EventsOf(const ClosedAttempt& attempt, const AttemptEnd& end) {
  const std::string at = Iso8601(end.finished_unix_ms);
  const bool trains = attempt.kind == TaskKind::kTrain;
  std::vector<EventRow> events;
  const auto tell = [&](const char* level, const char* source, std::string message) {
    events.push_back({attempt.run_id, attempt.round, at, level, source, std::move(message)});
  };
  const std::string enough = EnoughWithout(attempt.kind);
  int64_t late = 0;
  std::vector<const Lease*> lost;  // usually few, so only these are sorted
  for (const auto& [lease, facts] : attempt.tasks) {
    if (lease.reason == enough) {
      ++late;
    } else if (EndOf(lease) != TaskEnd::kFolded) {
      lost.push_back(&lease);
    }
  }
  std::sort(lost.begin(), lost.end(), [](const Lease* a, const Lease* b) {
    return std::tie(a->client_id, a->ordinal) < std::tie(b->client_id, b->ordinal);
  });
  for (const Lease* lease : lost) {
    tell("warning", "client", fmt::format("'{}' {}: {}", lease->client_id, Name(EndOf(*lease)), lease->reason));
  }
  if (late > 0) {
    tell("info", "client", fmt::format("{} of {} were late: {}", late, attempt.tasks.size(), enough));
  }
  for (const std::string& warning : end.warnings) tell("warning", "aggregation", warning);
  if (trains && end.status == "abandoned") {
    tell("warning", "round", fmt::format("attempt {} abandoned: {}", attempt.number, end.reason));
  } else if (!trains && end.status != "measured") {
    tell("warning", "evaluation", fmt::format("version {} was not measured by clients: {}", attempt.round, end.reason));
  }
  if (!end.ends_early.empty()) tell("info", "run", fmt::format("no further round: {}", end.ends_early));
  if (end.finishes_run) tell("info", "run", fmt::format("finished after round {}", attempt.round));
  return events;
}

std::vector<std::pair<std::string, TaskOutcome>> OutcomesOf(const ClosedAttempt& attempt, const AttemptEnd& end) {
  return LastWords(attempt, end, false);
}

std::vector<std::pair<std::string, TaskOutcome>> OutcomesOfSites(const ClosedAttempt& attempt, const AttemptEnd& end) {
  return LastWords(attempt, end, true);
}

}  // namespace rivulet
