// From the folded updates of a round to the next model, its file and its rows.
#include <algorithm>
#include <unordered_set>

#include "coordinator/run_coordinator.h"
#include "coordinator/server_optimizers/sgd.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

using Seconds = std::chrono::duration<double>;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

// Of a lease whose attempt is closed.
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

// Below it the lost coordinates are those of nearly nothing; above it the settings do not fit the model, and somebody
// should know.
constexpr double kToleratedLoss = 0.001;  // of non-zero coordinates, to rounding

}  // namespace

EventRow RunCoordinator::Note(std::string level, std::string source, std::string message,
                              std::optional<int64_t> round) const {
  return {run_id_, round, Iso8601(NowUnixMs()), std::move(level), std::move(source), std::move(message)};
}

// The rows of a closed attempt, but for what a commit adds. A closed attempt's records do not change any more.
// Rows are made at the end and not as things happen: one transaction then tells a whole attempt or nothing of it, and
// no reader sees half a round.
AttemptRecord RunCoordinator::Describe(const Job& job, const std::string& status, const std::string& reason) const {
  const Attempt& attempt = *job.attempt;
  const bool committed = status == "committed";
  AttemptRecord record;
  RoundRow& round = record.round;
  round.run_id = run_id_;
  round.round = attempt.round;
  round.attempt = attempt.number;
  round.status = status;
  round.reason = reason;
  round.started_at = Iso8601(attempt.started_unix_ms);
  round.selected = static_cast<int64_t>(job.leases.size());
  round.train_seconds = static_cast<double>(attempt.closed - attempt.started) / 1000;

  // In the order of names, so that the mean's bits do not depend on arrival.
  std::vector<const Lease*> leases;
  for (const Lease& lease : job.leases) leases.push_back(&lease);
  std::sort(leases.begin(), leases.end(), [](const Lease* a, const Lease* b) { return a->client_id < b->client_id; });
  double loss_sum = 0;
  int64_t loss_examples = 0;
  const auto seconds = [](std::optional<TimeMs> begin, std::optional<TimeMs> end) {
    return begin && end ? std::optional(static_cast<double>(*end - *begin) / 1000) : std::nullopt;
  };
  for (const Lease* lease : leases) {
    const TaskEntry& task = attempt.tasks.at(lease->task);
    ClientRoundRow& row = record.tasks.emplace_back();
    row.task_id = lease->task;
    row.run_id = run_id_;
    row.round = attempt.round;
    row.attempt = attempt.number;
    row.client_id = lease->client_id;
    const TaskEnd end = EndOf(*lease);
    row.status = Name(end);
    row.base_round = lease->base_round;
    row.parent_id = lease->via;
    row.examples = task.examples;
    row.steps = task.steps;
    row.train_loss = task.train_loss;
    row.update_norm = task.update_norm;
    row.update_digest = task.update_digest;
    row.weight = task.weight;
    row.bytes_down = *task.bytes_down;
    row.bytes_up = task.bytes_up;
    row.wait_seconds = seconds(task.offered, task.taken);
    row.train_seconds = task.train_seconds;
    row.upload_seconds = seconds(task.upload_began, task.uploaded);
    row.error = lease->reason;
    round.bytes_down += row.bytes_down;
    round.bytes_up += row.bytes_up;
    switch (end) {
      case TaskEnd::kFolded:
        ++round.folded;
        round.examples += task.examples.value_or(0);
        if (task.train_loss) {
          loss_sum += *task.train_loss * static_cast<double>(task.examples.value_or(0));
          loss_examples += task.examples.value_or(0);
        }
        if (committed) {
          row.committed_round = attempt.round;
          row.staleness = attempt.round - 1 - lease->base_round;
          if (task.train_loss) {
            record.metrics.push_back(
                {run_id_, attempt.round, "client", lease->client_id, "train/loss", task.train_loss});
          }
        } else {
          row.status = Name(TaskEnd::kDropped);  // its update is in no model
          row.error = fmt::format("the round was {}", status);
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
    if (end != TaskEnd::kFolded) {
      record.events.push_back(Note("warning", "client",
                                   fmt::format("'{}' {}: {}", lease->client_id, row.status, row.error), attempt.round));
    }
  }
  round.reported = round.folded + round.refused;
  if (loss_examples > 0) {
    round.train_loss = loss_sum / static_cast<double>(loss_examples);
    if (committed) {
      record.metrics.push_back({run_id_, attempt.round, "federated", "", "train/loss", round.train_loss});
    }
  }
  return record;
}

// The attempt as a span of the row "rounds", around the arrows of its offers.
void RunCoordinator::TraceRound(const Attempt& attempt, const RoundReport& report) const {
  Tracer* const tracer = options_.tracer;
  if (tracer == nullptr) return;
  std::vector<TraceArg> args = {{"attempt", report.attempt},
                                {"status", std::string_view(report.status)},
                                {"selected", report.selected},
                                {"folded", report.folded},
                                {"train_loss", report.train_loss}};
  if (!report.reason.empty()) args.push_back({"reason", std::string_view(report.reason)});
  for (const auto& [name, value] : report.central) args.push_back({name, value});
  const TraceRow row = tracer->Row("coordinator", "rounds");
  tracer->Complete(row, "round", fmt::format("round {}", report.round), attempt.traced_from, ProfileNanos(), args);
  tracer->Instant(row, "round", fmt::format("round {} {}", report.round, report.status), {});
}

// Rows of clients ride along in the transaction of an attempt, since a transaction of their own would cost a sync of
// the disk for every poll.
void RunCoordinator::AddSeen(const Job& job, AttemptRecord& record) {
  std::unordered_set<std::string_view> workers;
  for (const Lease& lease : job.leases) workers.insert(lease.client_id);
  MutexLock lock(mutex_);
  const int64_t now = NowUnixMs();
  // Waiting clients poll often; a minute is exact enough for them.
  for (auto& [client_id, seen] : seen_) {
    if (seen.unix_ms <= seen.written_unix_ms) continue;
    if (!workers.contains(client_id) && !record.finishes_run && now - seen.written_unix_ms < 60'000) continue;
    seen.written_unix_ms = seen.unix_ms;
    record.seen.emplace_back(client_id, Iso8601(seen.unix_ms));
  }
}

// A client that lost its connection at the wrong moment asks again, perhaps rounds later. The last outcome of each is
// kept, so that the answer needs no query.
void RunCoordinator::RememberOutcomes(const Job& job, bool committed, const std::string& reason) {
  for (const Lease& lease : job.leases) {
    TaskOutcome outcome{lease.task, EndOf(lease), lease.reason};
    if (outcome.end == TaskEnd::kFolded && !committed) {
      outcome.end = TaskEnd::kDropped;
      outcome.reason = reason;
    }
    outcomes_[lease.client_id] = std::move(outcome);
  }
}

// The order is what a crash may interrupt anywhere. The file comes before its row, since a row without its file would
// make the run impossible to resume, while a file without a row is only removed; the row comes before the old file's
// removal for the same reason. In memory the new model is current only when both are on disk, so no client is ever
// given a task on a model that a restart might not know.
Status RunCoordinator::CommitRound(const Job& job) {
  Attempt& attempt = *job.attempt;
  const int64_t round = attempt.round;
  std::shared_ptr<const Model> base;
  ModelRow base_row;
  {
    MutexLock lock(mutex_);
    base = current_.model;
    base_row = current_.row;
  }

  TraceSpan committing(options_.tracer, "phase", "commit");
  committing.Arg("round", round);

  // The new model, and what it is worth.
  const auto begin = std::chrono::steady_clock::now();
  double lost_fraction = 0, aggregate_seconds = 0, evaluate_seconds = 0;
  std::map<std::string, double> central;
  // No lock is held while the model is made and evaluated: clients go on polling, and are told to wait.
  const auto compute = [&]() -> StatusOr<std::shared_ptr<const Model>> {
    std::unique_ptr<Aggregation> aggregation;
    {
      MutexLock lock(attempt.fold_mutex);
      aggregation = std::move(attempt.aggregation);
      aggregate_seconds = attempt.fold_seconds;
    }
    RIVULET_ASSIGN_OR_RETURN(const ServerInput input, std::move(*aggregation).Finish());
    // Sums of 64 bits take twice the room of the model; they go before the new model and an evaluation need theirs.
    aggregation.reset();
    lost_fraction = input.lost_fraction;
    RIVULET_ASSIGN_OR_RETURN(auto model,
                             ApplyMeanDelta(*base, input.mean_delta, options_.scenario.server.learning_rate));
    aggregate_seconds += SecondsSince(begin);
    const int64_t every = options_.scenario.evaluation.every;
    const bool last = round == options_.scenario.run.rounds;
    if (options_.evaluator != nullptr && every > 0 && (round % every == 0 || last)) {
      TraceSpan evaluating(options_.tracer, "phase", "evaluate");
      const auto evaluation = std::chrono::steady_clock::now();
      RIVULET_ASSIGN_OR_RETURN(central, options_.evaluator->Evaluate(*model));
      evaluate_seconds = SecondsSince(evaluation);
    }
    return model;
  };
  StatusOr<std::shared_ptr<const Model>> model = compute();

  AttemptRecord record = Describe(job, model.ok() ? "committed" : "failed", std::string(Message(model.status())));
  RoundReport report;
  report.round = round;
  report.attempt = attempt.number;
  report.status = record.round.status;
  report.reason = record.round.reason;
  report.selected = record.round.selected;
  report.folded = record.round.folded;
  report.train_loss = record.round.train_loss.value_or(0);
  report.train_seconds = record.round.train_seconds;
  report.evaluate_seconds = record.round.evaluate_seconds = evaluate_seconds;
  const auto finish = [&](const Status& status) {
    report.aggregate_seconds = aggregate_seconds;
    TraceRound(attempt, report);
    MutexLock lock(mutex_);
    RememberOutcomes(job, status.ok(), std::string(Message(status)));
    if (options_.observer.on_round) Later([this, report] { options_.observer.on_round(report); });
    return status;
  };

  if (!model.ok()) {
    // No fault of files or rows: the attempt is closed as failed, and a resumed run makes another one.
    record.round.finished_at = Iso8601(NowUnixMs());
    record.round.aggregate_seconds = aggregate_seconds;
    RIVULET_RETURN_IF_ERROR(history_->AddAttempt(record));
    return finish(Annotate(model.status(), fmt::format("round {} cannot be committed", round)));
  }

  const auto writing = std::chrono::steady_clock::now();
  RIVULET_ASSIGN_OR_RETURN(StoredModel stored, models_->Save(round, *std::move(model)));
  const bool keep_last = options_.scenario.run.keep_models == "last";
  record.model = stored.row;
  record.forget_older_models = keep_last;
  record.finishes_run = round == options_.scenario.run.rounds;
  record.round.finished_at = Iso8601(NowUnixMs());
  record.round.model_digest = stored.row.digest;
  aggregate_seconds += SecondsSince(writing);
  record.round.aggregate_seconds = aggregate_seconds;
  for (const auto& [name, value] : central) record.metrics.push_back({run_id_, round, "central", "", name, value});
  if (lost_fraction > kToleratedLoss) {
    record.events.push_back(Note(
        "warning", "aggregation",
        fmt::format(
            "{:.2f} % of the non-zero coordinates of the updates are smaller than the resolution of the sum and were "
            "lost; lower server.value_bits ({}) or server.max_weight ({})",
            100 * lost_fraction, parts_.aggregation.value_bits, parts_.aggregation.max_weight),
        round));
  }
  if (record.finishes_run)
    record.events.push_back(Note("info", "run", fmt::format("finished after round {}", round), round));
  AddSeen(job, record);
  // The new file stays also when this fails, and so does the old one: a commit that could not be synced may be found in
  // the log later. The next start removes the one that no row names.
  if (const Status status = history_->AddAttempt(record); !status.ok()) {
    return Annotate(status, fmt::format("round {} cannot be committed", round));
  }
  // Committed. What comes after may fail without undoing it: a file that stays is removed by the next start.
  if (keep_last) models_->Remove(base_row).IgnoreError();
  report.model_digest = stored.digest;
  report.central = std::move(central);
  {
    MutexLock lock(mutex_);
    current_ = std::move(stored);
  }
  return finish(absl::OkStatus());
}

Status RunCoordinator::AbandonRound(const Job& job) {
  const auto& abandon = std::get<Abandon>(job.action);
  Attempt& attempt = *job.attempt;
  AttemptRecord record = Describe(job, "abandoned", abandon.reason);
  record.round.finished_at = Iso8601(NowUnixMs());
  record.events.push_back(Note(
      "warning", "round", fmt::format("attempt {} abandoned: {}", abandon.attempt, abandon.reason), abandon.round));
  {
    MutexLock lock(attempt.fold_mutex);
    record.round.aggregate_seconds = attempt.fold_seconds;
    attempt.aggregation.reset();
  }
  AddSeen(job, record);
  RIVULET_RETURN_IF_ERROR(history_->AddAttempt(record));
  RoundReport report;
  report.round = abandon.round;
  report.attempt = abandon.attempt;
  report.status = "abandoned";
  report.reason = abandon.reason;
  report.selected = record.round.selected;
  report.folded = record.round.folded;
  report.train_loss = record.round.train_loss.value_or(0);
  report.train_seconds = record.round.train_seconds;
  report.aggregate_seconds = record.round.aggregate_seconds;
  TraceRound(attempt, report);
  MutexLock lock(mutex_);
  RememberOutcomes(job, false, "the round was abandoned: " + abandon.reason);
  if (options_.observer.on_round) Later([this, report] { options_.observer.on_round(report); });
  return absl::OkStatus();
}

}  // namespace rivulet
