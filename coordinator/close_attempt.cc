// What becomes of an attempt that the machine has closed: the next version or none, its rows, and who is told.
#include "coordinator/commit/commit.h"
#include "coordinator/run_coordinator.h"
#include "engine/profile/tracer.h"

namespace rivulet {

// The records are only read from here on. Uploads that were cut off, and downloads that still go on, keep the attempt
// itself.
ClosedAttempt RunCoordinator::Closed(Job& job) const {
  const Attempt& attempt = *job.attempt;
  ClosedAttempt closed;
  closed.run_id = run_id_;
  closed.round = attempt.round;
  closed.number = attempt.number;
  closed.started_unix_ms = attempt.started_unix_ms;
  closed.started = attempt.started;
  closed.closed = attempt.closed;
  closed.tasks.reserve(job.leases.size());
  for (Lease& lease : job.leases) {
    const TaskEntry& record = attempt.tasks.at(lease.task);
    TaskFacts& facts = closed.tasks.emplace_back(ClosedAttempt::ClosedTask{std::move(lease), record}).facts;
    facts.bytes_down = *record.downloaded;
  }
  return closed;
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

// A client that lost its connection at the wrong moment asks again, perhaps rounds later. The last outcome of each is
// kept, so that the answer needs no query.
void RunCoordinator::TellRound(const Attempt& attempt, const ClosedAttempt& closed, const AttemptEnd& end,
                               const RoundRow& row) {
  RoundReport report;
  report.round = row.round;
  report.attempt = row.attempt;
  report.status = row.status;
  report.reason = row.reason;
  report.selected = row.selected;
  report.folded = row.folded;
  report.train_loss = row.train_loss.value_or(0);
  report.train_seconds = row.train_seconds;
  report.aggregate_seconds = row.aggregate_seconds;
  report.evaluate_seconds = row.evaluate_seconds;
  report.model_digest = end.model_digest.value_or(Digest{});
  for (const auto& [name, measure] : end.central) report.central[name] = measure.value;
  TraceRound(attempt, report);
  std::vector<std::pair<std::string, TaskOutcome>> outcomes = OutcomesOf(closed, end);
  MutexLock lock(mutex_);
  for (auto& [client_id, outcome] : outcomes) outcomes_[client_id] = std::move(outcome);
  if (options_.observer.on_round) Later([this, report = std::move(report)] { options_.observer.on_round(report); });
}

// No lock is held while the version is made and written: clients go on polling, and are told to wait. It is current
// only when it is on disk with its rows, so no client is ever given a task on a model that a restart might not know.
Status RunCoordinator::CommitRound(Job job) {
  Attempt& attempt = *job.attempt;
  const int64_t round = attempt.round;
  TraceSpan committing(options_.tracer, "phase", "commit");
  committing.Arg("round", round);

  std::shared_ptr<const Model> base;
  {
    MutexLock lock(mutex_);
    base = current_.model;
  }
  AttemptEnd end;
  std::unique_ptr<Aggregation> aggregation;
  {
    MutexLock lock(attempt.fold_mutex);
    aggregation = std::move(attempt.aggregation);
    end.aggregate_seconds = attempt.fold_seconds;
  }
  const Scenario& scenario = options_.scenario;
  const bool last = round == scenario.run.rounds;
  const int64_t every = scenario.evaluation.every;
  const bool measure = every > 0 && (round % every == 0 || last);
  StatusOr<MadeVersion> made = MakeVersion(*base, std::move(aggregation), scenario.server.learning_rate,
                                           measure ? options_.evaluator : nullptr, options_.tracer);

  end.status = made.ok() ? "committed" : "failed";
  end.reason = Message(made.status());
  end.finished_unix_ms = NowUnixMs();
  if (made.ok()) {
    end.aggregate_seconds += made->aggregate_seconds;
    end.evaluate_seconds = made->evaluate_seconds;
    end.model_digest = made->digest;
    end.central = std::move(made->central);
    end.finishes_run = last;
    if (std::string warning = LossWarning(made->lost_fraction, parts_.aggregation); !warning.empty()) {
      end.warnings.push_back(std::move(warning));
    }
  }
  const ClosedAttempt closed = Closed(job);
  AttemptRecord rows = RowsOf(closed, end);
  const RoundRow row = rows.round;
  const std::string context = fmt::format("round {} cannot be committed", round);
  if (!made.ok()) {
    // No fault of files or rows: the attempt is closed as failed, and a resumed run makes another one.
    RIVULET_RETURN_IF_ERROR(history_->AddAttempt(rows));
    TellRound(attempt, closed, end, row);
    return Annotate(made.status(), context);
  }
  rows.seen = SeenSince(closed, last);
  const bool keep_last = scenario.run.keep_models == "last";
  StatusOr<StoredModel> stored = WriteVersion(*history_, *models_, std::move(rows), *std::move(made), keep_last);
  if (!stored.ok()) return Annotate(stored.status(), context);
  {
    MutexLock lock(mutex_);
    current_ = *std::move(stored);
  }
  TellRound(attempt, closed, end, row);
  return absl::OkStatus();
}

Status RunCoordinator::AbandonRound(Job job) {
  Attempt& attempt = *job.attempt;
  AttemptEnd end;
  end.status = "abandoned";
  end.reason = std::get<Abandon>(job.action).reason;
  end.finished_unix_ms = NowUnixMs();
  {
    MutexLock lock(attempt.fold_mutex);
    end.aggregate_seconds = attempt.fold_seconds;
    attempt.aggregation.reset();
  }
  const ClosedAttempt closed = Closed(job);
  AttemptRecord rows = RowsOf(closed, end);
  rows.seen = SeenSince(closed, false);
  RIVULET_RETURN_IF_ERROR(history_->AddAttempt(rows));
  TellRound(attempt, closed, end, rows.round);
  return absl::OkStatus();
}

// Rows of clients ride along in the transaction of an attempt, since a transaction of their own would cost a sync of
// the disk for every poll.
std::vector<std::pair<std::string, std::string>> RunCoordinator::SeenSince(const ClosedAttempt& closed, bool last) {
  MutexLock lock(mutex_);
  return TakeSeen(closed, NowUnixMs(), last, seen_);
}

}  // namespace rivulet
