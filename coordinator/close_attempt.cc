#include "coordinator/close_attempt.h"

#include <algorithm>

#include "coordinator/commit/commit.h"
#include "engine/profile/tracer.h"
#include "federated/aggregation/staleness.h"
#include "federated/server_optimizers/server_rate.h"

namespace rivulet {
namespace {

constexpr size_t kTasksKept = 8192;  // 2 and 4 MB

// The losses that clients reported with updates in the version.
std::vector<ReportedLoss> ReportedLosses(const AttemptJob& job) {
  std::vector<ReportedLoss> told;
  for (const Lease& lease : job.leases) {
    const auto record = job.attempt->tasks.find(lease.task);
    if (lease.state != Lease::State::kFolded || record == job.attempt->tasks.end()) continue;
    const TaskFacts& facts = record->second;
    if (facts.train_loss) told.push_back({lease.task, lease.client_id, facts.examples.value_or(0), *facts.train_loss});
  }
  return told;
}

// The figures of this attempt's clients for later selections.
std::vector<CommitDone::Reported> ReportedBy(const ClosedAttempt& attempt, const CoordinatorOptions& options) {
  std::vector<CommitDone::Reported> reported;
  for (const auto& [lease, facts] : attempt.tasks) {
    if (attempt.kind != TaskKind::kTrain || lease.state != Lease::State::kFolded) continue;
    reported.push_back({lease.client_id, facts.examples.value_or(0), facts.train_loss.value_or(0),
                        DurationOf(options, lease.client_id, facts.train_seconds.value_or(0))});
  }
  return reported;
}

}  // namespace

AttemptCloser::AttemptCloser(CoordinatorSetup& setup, Around around)
    : setup_(setup),
      options_(setup.options),
      parts_(setup.parts),
      around_(around),
      stop_rule_(std::move(setup.stop_rule)),
      last_round_(setup.last_round),
      sums_(setup.parts.aggregation.secure.min_survivors),
      measured_sums_(setup.parts.evaluation.secure.min_survivors),
      writer_(*around_.history, *setup.models, ThreadExecutor("writes", 1), Clock::System(), WriterOptions(),
              setup.model_rows, around_.versions.current()->row.round) {
  if (!setup.resumed || parts_.steps == 1) return;
  const auto rows = around_.history->ClientRounds(setup.run_id, around_.versions.current()->row.round);
  if (!rows.ok()) return;  // the next sum is compared with none
  std::set<std::string> before, measured;
  for (const ClientRoundRow& row : *rows)
    if (row.status == Name(TaskEnd::kFolded))
      (row.kind == Name(TaskKind::kTrain) ? before : measured).insert(row.client_id);
  sums_.Read(std::move(before));
  measured_sums_.Read(std::move(measured));
}

VersionWriter::Options AttemptCloser::WriterOptions() {
  const RunConfig& run = options_.scenario.run;
  VersionWriter::Options options;
  options.durability = run.durability.empty() ? options_.enforce_deadline ? Durability::kRound : Durability::kSecond
                                              : DurabilityOf(run.durability);
  options.keep_all_models = run.keep_models == "all";
  options.keep_best_model = run.keep_models == "best";
  if (options.keep_best_model) {
    // If they cannot be read, the run cannot continue either, and its first write reports why.
    std::map<int64_t, std::map<std::string, Measure>> central;
    if (const auto metrics = around_.history->Metrics(setup_.run_id); metrics.ok()) {
      for (const MetricRow& metric : *metrics)
        if (metric.value) central[metric.round][metric.name] = {*metric.value, metric.right, metric.total};
    }
    for (const auto& [round, measures] : central)
      if (const std::optional<double> worth = WorthOf(measures)) options.worths[round] = *worth;
  }
  options.on_written = [this](std::span<const PendingAttempt> attempts) { OnWritten(attempts); };
  options.on_failed = [this](const Status& status) { around_.rounds.CannotWrite(status); };
  // Versions that are ready but not yet written are lost with the process; a resumed run makes them again, with the
  // same bits.
  options.on_log_held = [this](int64_t seconds, int64_t bytes) {
    around_.events.Tell(around_.events.Note(
        "warning",
        fmt::format("a reader has kept one state of the history '{}' open for {} s, and the log has grown to {} MB; "
                    "end that reader, such as a notebook's open transaction",
                    around_.history->path(), seconds, bytes / 1'000'000),
        around_.rounds.Round()));
  };
  options.tracer = options_.tracer;
  options.records = setup_.records.get();
  return options;
}

// Clients with an update in it may drop their copies for a crash.
void AttemptCloser::OnWritten(std::span<const PendingAttempt> attempts) {
  for (const PendingAttempt& pending : attempts) {
    around_.records.Written(pending);  // before a client hears that its update counts, and asks for the receipt
    around_.clients.Written(pending);
    around_.states.Written(pending);
  }
  around_.rounds.Written(attempts);
  around_.reports.Forget(attempts);
  around_.states.ForgetSuperseded(around_.rounds.OldestToMeasure());
}

// The records are only read from here on. Interrupted uploads and running downloads keep the attempt
// itself.
ClosedAttempt AttemptCloser::Closed(AttemptJob& job, std::vector<ClosedAttempt::ClosedTask> room) const {
  const Attempt& attempt = *job.attempt;
  ClosedAttempt closed;
  closed.run_id = setup_.run_id;
  closed.kind = attempt.kind;
  closed.round = attempt.round;
  closed.number = attempt.number;
  closed.started_unix_ms = attempt.started_unix_ms;
  closed.started = attempt.started;
  closed.closed = attempt.closed;
  closed.tasks = std::move(room);
  closed.tasks.reserve(job.leases.size());
  for (Lease& lease : job.leases) {
    const auto record = attempt.tasks.find(lease.task);
    TaskFacts& facts = closed.tasks.emplace_back(ClosedAttempt::ClosedTask{std::move(lease), {}}).facts;
    // Of a task that had failed before a restart, the lease alone is known.
    if (record == attempt.tasks.end()) continue;
    facts = record->second;
    if (record->second.downloaded != nullptr) facts.bytes_down = *record->second.downloaded;
  }
  return closed;
}

// Traces the attempt as a span of the row "rounds", around the arrows of its offers.
void AttemptCloser::TraceRound(const Attempt& attempt, const RoundReport& report) const {
  Tracer* const tracer = options_.tracer;
  if (tracer == nullptr) return;
  std::vector<TraceArg> args = {{"attempt", report.attempt},
                                {"status", std::string_view(report.status)},
                                {"selected", report.selected},
                                {"folded", report.folded}};
  if (report.train_loss) args.push_back({"train_loss", *report.train_loss});
  if (!report.reason.empty()) args.push_back({"reason", std::string_view(report.reason)});
  for (const auto& [name, value] : report.central) args.push_back({name, value});
  const TraceRow row = tracer->Row("coordinator", "rounds");
  tracer->Complete(row, "round", fmt::format("round {}", report.round), attempt.traced_from, attempt.traced_until,
                   args);
  tracer->Instant(row, "round", fmt::format("round {} {}", report.round, report.status), {});
}

RoundReport AttemptCloser::ReportOf(const Attempt& attempt, const PendingAttempt& pending) const {
  const RoundRow& row = *pending.row;
  RoundReport report;
  report.run_id = setup_.run_id;
  report.round = row.round;
  report.attempt = row.attempt;
  report.status = row.status;
  report.reason = row.reason;
  report.selected = row.selected;
  report.result() = row.result();
  for (const auto& [lease, facts] : pending.attempt.tasks) {
    if (lease.state != Lease::State::kRefused && lease.state != Lease::State::kFailed) continue;
    report.lost.push_back({lease.client_id, fmt::format("{}: {}", Name(lease.state), lease.reason), lease.task});
  }
  report.model_digest = pending.end.model_digest.value_or(Digest{});
  for (const auto& [name, measure] : pending.end.central) report.central[name] = measure.value;
  report.virtual_seconds = pending.end.virtual_seconds;
  report.ends_early = pending.end.ends_early;
  TraceRound(attempt, report);
  return report;
}

// No lock is held while the version is made: clients continue to poll, and are asked to wait.
AttemptCloser::Outcome AttemptCloser::MakeRound(AttemptJob& job) {
  Attempt& attempt = *job.attempt;
  const int64_t round = attempt.round;
  TraceSpan committing(options_.tracer, "phase", "commit");
  committing.Arg("round", round);

  const Versions::Version base = around_.versions.current();
  Outcome outcome;
  AttemptEnd& end = outcome.pending.end;
  std::unique_ptr<Aggregation> aggregation = attempt.accumulator->Close();
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  const Scenario& scenario = options_.scenario;
  std::string exhausted;
  if (const Status charged = Charge(end, exhausted); !charged.ok()) {
    outcome.status = charged;
    end.status = "failed";
    end.reason = Message(charged);
    end.finished_unix_ms = around_.clock.UnixMs();
    return outcome;
  }
  const bool last = round == last_round_ || !exhausted.empty();
  const int64_t every = scenario.evaluation.every;
  const bool measure = every > 0 && (round % every == 0 || last);
  const ServerUpdate update = {*setup_.optimizer,
                               ServerLearningRate(scenario.server, round),
                               &setup_.mean_mechanisms,
                               round,
                               options_.training,
                               setup_.number_rule.get(),
                               setup_.number_rule == nullptr ? std::vector<ReportedLoss>() : ReportedLosses(job),
                               setup_.privacy == nullptr ? nullptr : setup_.privacy->noise()};
  StatusOr<MadeVersion> made =
      MakeVersion(*base, std::move(aggregation), StalenessOf(round, parts_.policy.staleness_exponent), update,
                  measure ? options_.evaluator : nullptr, options_.tracer);
  StatusOr<ServedVersion> version =
      made.ok() ? setup_.models->Describe(round, std::move(static_cast<ServerState&>(*made))) : made.status();
  StatusOr<std::string> ends_early = version.ok() && measure && !last ? stop_rule_.After(made->central) : "";
  if (!ends_early.ok()) version = ends_early.status();

  end.status = version.ok() ? "committed" : "failed";
  end.reason = Message(version.status());
  end.finished_unix_ms = around_.clock.UnixMs();
  attempt.traced_until = ProfileNanos();
  if (!version.ok()) {
    end.spend.reset();  // nothing of it was revealed
    // No fault of files or rows: the attempt is closed as failed, and a resumed run starts another one.
    outcome.status = Annotate(version.status(), fmt::format("round {} cannot be committed", round));
    return outcome;
  }
  end.aggregate_seconds += made->aggregate_seconds;
  end.evaluate_seconds = made->evaluate_seconds;
  if (setup_.number_rule != nullptr) end.clip = setup_.number_rule->UnitOf(*base->numbers);
  end.model_digest = version->digest;
  if (end.spend)
    outcome.pending.privacy = setup_.privacy->Recorded(*end.spend, end.clip.value_or(setup_.privacy->clip()));
  end.central = std::move(made->central);
  if (options_.fleet != nullptr) {
    end.virtual_seconds = static_cast<double>(std::get<Commit>(job.action).at) / 1e6;
  }
  end.ends_early = *std::move(ends_early);
  if (end.ends_early.empty() && round != last_round_) end.ends_early = std::move(exhausted);
  if (!end.ends_early.empty()) last_round_ = round;
  end.finishes_run =
      round == last_round_ && scenario.evaluation.federated_every == 0;  // else this version's evaluation ends the run
  if (std::string warning = LossWarning(made->lost_fraction, parts_.aggregation); !warning.empty()) {
    end.warnings.push_back(std::move(warning));
  }
  CompareSums(job, end, sums_);
  outcome.pending.version = *std::move(version);
  return outcome;
}

void AttemptCloser::CompareSums(const AttemptJob& job, AttemptEnd& end, SumDifference& sums) const {
  if (job.attempt->secure == nullptr || !job.attempt->secure->WasRead()) return;
  std::set<std::string> clients;
  for (const Lease& lease : job.leases)
    if (lease.state == Lease::State::kFolded) clients.insert(lease.client_id);
  if (std::string warning = sums.Read(std::move(clients)); !warning.empty()) end.warnings.push_back(std::move(warning));
}

// The attempt's spend counts even if it is abandoned. `exhausted`: why no other may follow.
Status AttemptCloser::Charge(AttemptEnd& end, std::string& exhausted) const {
  if (setup_.privacy == nullptr) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(end.spend, setup_.privacy->Charge());
  RIVULET_ASSIGN_OR_RETURN(exhausted, setup_.privacy->Exhausted());
  return absl::OkStatus();
}

AttemptCloser::Outcome AttemptCloser::AbandonRound(AttemptJob& job) {
  Attempt& attempt = *job.attempt;
  Outcome outcome;
  AttemptEnd& end = outcome.pending.end;
  end.status = "abandoned";
  end.reason = std::get<Abandon>(job.action).reason;
  CompareSums(job, end, sums_);
  end.finished_unix_ms = around_.clock.UnixMs();
  attempt.traced_until = ProfileNanos();
  (void)attempt.accumulator->Close();
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  std::string exhausted;
  outcome.status = Charge(end, exhausted);
  if (outcome.status.ok() && !exhausted.empty()) {
    outcome.status = FailedPrecondition("round {} was abandoned, and {}", attempt.round, exhausted);
  }
  return outcome;
}

// The run depends on no evaluation, so measures that cannot be summed are a reason in its row and no failure.
AttemptCloser::Outcome AttemptCloser::FinishEvaluation(AttemptJob& job) {
  Attempt& attempt = *job.attempt;
  Outcome outcome;
  AttemptEnd& end = outcome.pending.end;
  end.reason = std::get<Evaluated>(job.action).reason;
  std::unique_ptr<Aggregation> aggregation = attempt.accumulator->Close();
  if (end.reason.empty()) {
    const StatusOr<ServerInput> input = std::move(*aggregation).Finish();
    StatusOr<Measures> measures = input.ok() ? MeasuresOfSums(parts_.evaluation, input->scalars) : input.status();
    end.reason = Message(measures.status());
    if (measures.ok()) end.federated = *std::move(measures);
  }
  CompareSums(job, end, measured_sums_);
  end.status = end.reason.empty() ? "measured" : "abandoned";
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  end.finished_unix_ms = around_.clock.UnixMs();
  end.finishes_run = attempt.round == last_round_;
  return outcome;
}

EvaluationReport AttemptCloser::ReportOfEvaluation(const PendingAttempt& pending) const {
  const AttemptRecord record = RowsOf(pending.attempt, pending.end, *pending.row);
  EvaluationReport report;
  report.run_id = setup_.run_id;
  report.round = pending.attempt.round;
  report.reason = pending.end.reason;
  report.selected = record.round.selected;
  report.folded = record.round.folded;
  for (const MetricRow& metric : record.metrics) {
    if (metric.scope == "federated" && metric.value) report.federated[metric.name] = *metric.value;
  }
  return report;
}

// Whether the next draw, the states of tasks, or the answer to a caller's next poll depends on how the tasks of this
// attempt ended.
bool AttemptCloser::NextRoundDependsOn(const AttemptJob& job) const {
  return parts_.keeps_state || parts_.measures_state || options_.names_states || around_.rounds.remembers() ||
         around_.clients.has_aggregators() || !std::ranges::all_of(job.leases, &Lease::served_by_another);
}

// Makes an attempt's notifications, without a lock.
AttemptCloser::ClosedNews AttemptCloser::NewsOf(const Attempt& attempt, const PendingAttempt& pending) const {
  ClosedNews news;
  if (attempt.kind == TaskKind::kTrain) {
    news.report = ReportOf(attempt, pending);
  } else {
    news.measured = ReportOfEvaluation(pending);
  }
  news.outcomes = OutcomesOf(pending.attempt, pending.end);
  if (options_.observer.on_event) news.events = EventsOf(pending.attempt, pending.end);
  return news;
}

std::vector<RunEvents::Callback> AttemptCloser::Notify(const PendingAttempt& pending, ClosedNews news) {
  const bool trains = pending.attempt.kind == TaskKind::kTrain;
  around_.states.Closed(pending);
  around_.clients.Closed(pending, std::move(news.outcomes));
  std::vector<RunEvents::Callback> callbacks;
  for (EventRow& event : news.events) {
    if (event.level == "info") continue;  // the report has it
    around_.events.Heard();
    callbacks.emplace_back([this, event = std::move(event)] { options_.observer.on_event(event); });
  }
  if (trains && options_.observer.on_round) {
    callbacks.emplace_back([this, report = std::move(news.report)] { options_.observer.on_round(report); });
  } else if (!trains && options_.observer.on_evaluation) {
    callbacks.emplace_back([this, measured = std::move(news.measured)] { options_.observer.on_evaluation(measured); });
  }
  return callbacks;
}

// The run continues as soon as the version exists: the next cohort is drawn while files and rows of this one are still
// being written. A crash may thus lose versions that open tasks start from. The resumed run draws the same cohorts
// again, and the same tasks give the same bits. Only the end waits for the disk: a run that is reported as finished is
// durable.
//
// The snapshot of the rounds at that time goes with the rows: a restart reads from it which clients were drawn, skipped
// or excluded, and offers the same tasks.
//
// A client that lost its connection at the wrong moment asks again, perhaps rounds later: the last outcome of each is
// kept in memory, so the answer needs no query. Rows of clients share the transaction of an attempt, because separate
// ones would cost a disk sync for every poll.
//
// A version of a private run is served, measured and reported once its row and its spend are durable. A crash before
// that reveals nothing of it, and the version that is made again has the same noise on its sums. Such rows have no
// snapshot; the draw follows from the version. The row of an abandoned attempt in steps is durable before the next
// attempt begins, because a restart numbers attempts by the rows that it finds.
//
// If no task and no client needs the attempt's outcome, as in most simulations, its records and its report are made
// once the workers have new tasks. For a thousand small tasks this is most of the work, and all workers would wait for
// it. The order of notifications stays the same.
void AttemptCloser::Close(AttemptJob job) {
  const bool trains = job.attempt->kind == TaskKind::kTrain;
  auto [status, pending] = !trains                                      ? FinishEvaluation(job)
                           : std::holds_alternative<Commit>(job.action) ? MakeRound(job)
                                                                        : AbandonRound(job);
  const bool ends = pending.end.finishes_run || !status.ok(), ends_early = !pending.end.ends_early.empty();
  const bool abandoned_in_steps = trains && parts_.steps > 1 && pending.end.status == "abandoned";
  const bool durable_first = (trains && setup_.privacy != nullptr) || abandoned_in_steps;
  const bool goes_on_first = !ends && !durable_first && pending.end.status == "committed" && !NextRoundDependsOn(job);
  ClosedNews news;
  const auto gather = [&] {
    pending.attempt = Closed(job, std::exchange(closed_, {}));
    if (pending.version) pending.updates = UpdatesOf(pending.attempt);
    pending.row = RoundOf(pending.attempt, pending.end);
    news = NewsOf(*job.attempt, pending);
  };
  if (!goes_on_first) gather();
  const auto go_on = [&] {
    around_.clients.WhileNobodyJoins([&] {
      if (!trains) {
        (void)around_.rounds.GoOn(EvaluationDone{}, status, false, &offers_);
      } else {
        CommitDone done{status.ok(), std::string(Message(status))};
        done.last = ends_early;
        if (around_.rounds.remembers()) done.reported = ReportedBy(pending.attempt, options_);
        auto [snapshot, needed] = around_.rounds.GoOn(done, status, goes_on_first, &offers_);
        pending.snapshot = std::move(snapshot);
        pending.needed = std::move(needed);
      }
    });
    offers_.clear();
    if (offers_.capacity() > kTasksKept) offers_ = {};
  };
  const auto tell = [&] {
    std::vector<RunEvents::Callback> callbacks = Notify(pending, std::move(news));
    pending.seen = around_.clients.TakeSeen(pending.attempt, pending.end.finishes_run);
    return callbacks;
  };
  std::vector<RunEvents::Callback> callbacks;
  if (durable_first) {
    callbacks = tell();
    writer_.Add(PendingAttempt(pending));
    if (!writer_.Flush().ok()) return;  // a failed write has ended the run
  }
  around_.rounds.AttemptIsOver(pending.version);
  if (goes_on_first) {
    around_.events.Hold();
  } else {
    if (!durable_first) callbacks = tell();
    for (RunEvents::Callback& callback : callbacks) around_.events.Later(std::move(callback));
  }
  if (!ends) go_on();
  if (goes_on_first) {
    gather();
    around_.events.Release(tell());
  }
  // If reports are stored, the writer of a task's row removes its report.
  if (goes_on_first && !around_.reports.keeps() && !setup_.resumed) {
    pending.packed = PackedTasks(pending.attempt);
    closed_ = std::exchange(pending.attempt.tasks, {});
    closed_.clear();
    if (closed_.capacity() > kTasksKept) closed_ = {};
  }
  around_.states.ForgetUnfolded(pending);
  around_.states.ForgetSuperseded(around_.rounds.OldestToMeasure());
  if (!durable_first) writer_.Add(std::move(pending));
  if (!ends || !writer_.Flush().ok()) return;  // a failed write has ended the run
  go_on();
  around_.states.ForgetSuperseded(around_.rounds.OldestToMeasure());
}

}  // namespace rivulet
