// What becomes of an attempt that the machine has closed: the next version or none, its rows, and who is told.
#include <algorithm>
#include <iterator>

#include "coordinator/commit/commit.h"
#include "coordinator/run_coordinator.h"
#include "engine/profile/tracer.h"
#include "federated/aggregation/staleness.h"
#include "federated/server_optimizers/server_rate.h"

namespace rivulet {
namespace {

constexpr size_t kTasksKept = 8192;  // 2 and 4 MB

}  // namespace

// The records are only read from here on. Uploads that were cut off, and downloads that still go on, keep the attempt
// itself.
ClosedAttempt RunCoordinator::Closed(Job& job, std::vector<ClosedAttempt::ClosedTask> room) const {
  const Attempt& attempt = *job.attempt;
  ClosedAttempt closed;
  closed.run_id = run_id_;
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
    // Of one that had failed before a restart no more is known than what its lease says.
    if (record == attempt.tasks.end()) continue;
    facts = record->second;
    if (record->second.downloaded != nullptr) facts.bytes_down = *record->second.downloaded;
  }
  return closed;
}

// What the clients told whose updates are in the version.
std::vector<ReportedLoss> RunCoordinator::ReportedLosses(const Job& job) const {
  std::vector<ReportedLoss> told;
  for (const Lease& lease : job.leases) {
    const auto record = job.attempt->tasks.find(lease.task);
    if (lease.state != Lease::State::kFolded || record == job.attempt->tasks.end()) continue;
    const TaskFacts& facts = record->second;
    if (facts.train_loss) told.push_back({lease.task, lease.client_id, facts.examples.value_or(0), *facts.train_loss});
  }
  return told;
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
  tracer->Complete(row, "round", fmt::format("round {}", report.round), attempt.traced_from, attempt.traced_until,
                   args);
  tracer->Instant(row, "round", fmt::format("round {} {}", report.round, report.status), {});
}

RoundReport RunCoordinator::ReportOf(const Attempt& attempt, const PendingAttempt& pending) const {
  const RoundRow& row = *pending.row;
  RoundReport report;
  report.run_id = run_id_;
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

// No lock is held while the version is made: clients go on polling, and are told to wait.
RunCoordinator::Outcome RunCoordinator::MakeRound(Job& job) {
  Attempt& attempt = *job.attempt;
  const int64_t round = attempt.round;
  TraceSpan committing(options_.tracer, "phase", "commit");
  committing.Arg("round", round);

  const Versions::Version base = versions_.current();
  Outcome outcome;
  AttemptEnd& end = outcome.pending.end;
  std::unique_ptr<Aggregation> aggregation = attempt.accumulator->Close();
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  const Scenario& scenario = options_.scenario;
  const bool last = round == last_round_;
  const int64_t every = scenario.evaluation.every;
  const bool measure = every > 0 && (round % every == 0 || last);
  const ServerUpdate update = {*optimizer_,
                               ServerLearningRate(scenario.server, round),
                               &mean_mechanisms_,
                               round,
                               options_.training,
                               number_rule_.get(),
                               number_rule_ == nullptr ? std::vector<ReportedLoss>() : ReportedLosses(job)};
  StatusOr<MadeVersion> made =
      MakeVersion(*base, std::move(aggregation), StalenessOf(round, parts_.policy.staleness_exponent), update,
                  measure ? options_.evaluator : nullptr, options_.tracer);
  StatusOr<ServedVersion> version =
      made.ok() ? models_->Describe(round, std::move(static_cast<ServerState&>(*made))) : made.status();
  StatusOr<std::string> ends_early = version.ok() && measure && !last ? stop_rule_.After(made->central) : "";
  if (!ends_early.ok()) version = ends_early.status();

  end.status = version.ok() ? "committed" : "failed";
  end.reason = Message(version.status());
  end.finished_unix_ms = clock_.UnixMs();
  attempt.traced_until = ProfileNanos();
  if (!version.ok()) {
    // No fault of files or rows: the attempt is closed as failed, and a resumed run makes another one.
    outcome.status = Annotate(version.status(), fmt::format("round {} cannot be committed", round));
    return outcome;
  }
  end.aggregate_seconds += made->aggregate_seconds;
  end.evaluate_seconds = made->evaluate_seconds;
  end.model_digest = version->digest;
  end.central = std::move(made->central);
  if (options_.fleet != nullptr) {
    end.virtual_seconds = static_cast<double>(std::get<Commit>(job.action).at) / 1e6;
  }
  end.ends_early = *std::move(ends_early);
  if (!end.ends_early.empty()) last_round_ = round;
  end.finishes_run =
      round == last_round_ && scenario.evaluation.federated_every == 0;  // else the measuring of this version ends it
  if (std::string warning = LossWarning(made->lost_fraction, parts_.aggregation); !warning.empty()) {
    end.warnings.push_back(std::move(warning));
  }
  outcome.pending.version = *std::move(version);
  return outcome;
}

RunCoordinator::Outcome RunCoordinator::AbandonRound(Job& job) {
  Attempt& attempt = *job.attempt;
  Outcome outcome;
  AttemptEnd& end = outcome.pending.end;
  end.status = "abandoned";
  end.reason = std::get<Abandon>(job.action).reason;
  end.finished_unix_ms = clock_.UnixMs();
  attempt.traced_until = ProfileNanos();
  (void)attempt.accumulator->Close();
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  return outcome;
}

// Nothing of the run depends on what is measured, so that what cannot be summed is a reason and no failure.
RunCoordinator::Outcome RunCoordinator::FinishEvaluation(Job& job) {
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
  end.status = end.reason.empty() ? "measured" : "abandoned";
  end.aggregate_seconds = attempt.accumulator->fold_seconds();
  end.finished_unix_ms = clock_.UnixMs();
  end.finishes_run = attempt.round == last_round_;
  return outcome;
}

EvaluationReport RunCoordinator::ReportOfEvaluation(const PendingAttempt& pending) const {
  const AttemptRecord record = RowsOf(pending.attempt, pending.end, *pending.row);
  EvaluationReport report;
  report.run_id = run_id_;
  report.round = pending.attempt.round;
  report.reason = pending.end.reason;
  report.selected = record.round.selected;
  report.folded = record.round.folded;
  for (const MetricRow& metric : record.metrics) {
    if (metric.scope == "federated" && metric.value) report.federated[metric.name] = *metric.value;
  }
  return report;
}

namespace {

// What the next selections may go by.
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

// Whether what is drawn next, what tasks begin with, or what a caller is told at its next poll goes by how the tasks of
// this attempt ended.
bool RunCoordinator::NextRoundDependsOn(const Job& job) {
  if (parts_.keeps_state || parts_.measures_state || options_.names_states) return true;
  if (clients_.has_aggregators()) return true;
  MutexLock lock(mutex_);
  if (machine_.remembers()) return true;
  return !std::ranges::all_of(job.leases, &Lease::served_by_another);
}

// Whether a run that is resumed by its rows alone draws what one does that has a snapshot beside them, when the next
// attempt has just begun: in a simulation whose members are all there, and whose cohorts are drawn whole and have no
// past. Of a thousand leases a snapshot is 170 kB, and takes as long as it takes to draw them.
bool RunCoordinator::RowsSufficeToResume() const {
  const Scenario& scenario = options_.scenario;
  return !options_.enforce_deadline && options_.fleet == nullptr && scenario.selection.trace.empty() &&
         parts_.policy.base == TaskPolicy::Base::kCommitted &&
         scenario.server.clients_asked() <= parts_.aggregation.updates_per_version && !machine_.remembers() &&
         !machine_.oldest_to_measure() && !sent_away_;
}

// What is told of an attempt, made without a lock.
RunCoordinator::ClosedNews RunCoordinator::NewsOf(const Attempt& attempt, const PendingAttempt& pending) const {
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

std::vector<RunEvents::Callback> RunCoordinator::Notify(const PendingAttempt& pending, ClosedNews news) {
  const bool trains = pending.attempt.kind == TaskKind::kTrain;
  {
    MutexLock lock(mutex_);
    if ((parts_.keeps_state || options_.names_states) && trains && pending.end.status == "committed") {
      for (const auto& [lease, facts] : pending.attempt.tasks) {
        if (lease.state == Lease::State::kFolded) states_.Folded(lease.task);
      }
    }
    if (!trains && parts_.measures_state) measured_.insert(pending.attempt.round);
  }
  clients_.Closed(pending, std::move(news.outcomes));
  std::vector<RunEvents::Callback> callbacks;
  for (EventRow& event : news.events) {
    if (event.level == "info") continue;  // the report tells
    events_.Heard();
    callbacks.emplace_back([this, event = std::move(event)] { options_.observer.on_event(event); });
  }
  if (trains && options_.observer.on_round) {
    callbacks.emplace_back([this, report = std::move(news.report)] { options_.observer.on_round(report); });
  } else if (!trains && options_.observer.on_evaluation) {
    callbacks.emplace_back([this, measured = std::move(news.measured)] { options_.observer.on_evaluation(measured); });
  }
  return callbacks;
}

// The run goes on as soon as the version is there: the next cohort is drawn while files and rows of this one are still
// to be written. A crash may so lose versions that tasks were given on; the run that is resumed draws the same cohorts
// again, and the same tasks give the same bits. Only the end waits for the disk: who hears that a run has finished may
// rely on it.
//
// What the rounds are like then goes with the rows: a restart finds who was drawn, passed over or left out, and offers
// the same tasks.
//
// A client that lost its connection at the wrong moment asks again, perhaps rounds later: the last outcome of each is
// kept, so that the answer needs no query. Rows of clients ride along in the transaction of an attempt, since one of
// their own would cost a sync of the disk for every poll.
//
// Where no task and no client is told anything of the attempt, as in most simulations, its records and its report are
// made when the workers have something to do again: of a thousand small tasks that is most of the work, and all would
// wait for it. What is told of the attempt is told before what comes after it all the same.
void RunCoordinator::CloseJob(Job job) {
  const bool trains = job.attempt->kind == TaskKind::kTrain;
  auto [status, pending] = !trains                                      ? FinishEvaluation(job)
                           : std::holds_alternative<Commit>(job.action) ? MakeRound(job)
                                                                        : AbandonRound(job);
  const bool ends = pending.end.finishes_run || !status.ok(), ends_early = !pending.end.ends_early.empty();
  const bool goes_on_first = !ends && pending.end.status == "committed" && !NextRoundDependsOn(job);
  ClosedNews news;
  const auto gather = [&] {
    pending.attempt = Closed(job, std::exchange(closed_, {}));
    pending.row = RoundOf(pending.attempt, pending.end);
    news = NewsOf(*job.attempt, pending);
  };
  if (!goes_on_first) gather();
  const auto go_on = [&]() REQUIRES(mutex_) {
    if (!status.ok()) failure_ = status;
    if (trains) {
      CommitDone done{status.ok(), std::string(Message(status))};
      done.last = ends_early;
      if (machine_.remembers()) done.reported = ReportedBy(pending.attempt, options_);
      offers_ = Feed(done, std::move(offers_));
      offers_.clear();
      if (offers_.capacity() > kTasksKept) offers_ = {};
    } else {
      Feed(EvaluationDone{});
    }
    versions_.Keep([this](int64_t version) REQUIRES(mutex_) { return machine_.Needs(version); });
  };
  const auto tell = [&] {
    std::vector<RunEvents::Callback> callbacks = Notify(pending, std::move(news));
    pending.seen = clients_.TakeSeen(pending.attempt, pending.end.finishes_run);
    return callbacks;
  };
  {
    MutexLock lock(mutex_);
    if (pending.version) {
      // A version that is measured stays until it has been, and one that tasks start from until these have ended; what
      // the machine needs no longer goes when it has heard of the new one.
      const int64_t before = pending.version->row.round - 1;
      versions_.SetCurrent(*pending.version, parts_.policy.base == TaskPolicy::Base::kLatest || machine_.Needs(before));
    }
    ++unwritten_;
  }
  if (goes_on_first) {
    events_.Hold();
  } else {
    for (RunEvents::Callback& callback : tell()) events_.Later(std::move(callback));
  }
  if (!ends) {
    clients_.WhileNobodyJoins([&] {
      MutexLock lock(mutex_);
      go_on();
      const bool snapshot = trains && (!machine_.over() || machine_.phase() == RunMachine::Phase::kStopped);
      if (snapshot && !(goes_on_first && RowsSufficeToResume())) {
        pending.snapshot = machine_.Save(clock_.Now());
        pending.needed = machine_.NeededVersions();
      }
    });
  }
  if (goes_on_first) {
    gather();
    events_.Release(tell());
  }
  // Where a report is kept for a task, whoever writes its row lets go of the report.
  if (goes_on_first && !keeps_reports_ && !resumed_) {
    pending.packed = PackedTasks(pending.attempt);
    closed_ = std::exchange(pending.attempt.tasks, {});
    closed_.clear();
    if (closed_.capacity() > kTasksKept) closed_ = {};
  }
  ForgetUnfolded(pending);
  ForgetSuperseded();
  writer_.Add(std::move(pending));
  if (!ends || !writer_.Flush().ok()) return;  // what was not written has ended the run (OnWriteFailed)
  clients_.WhileNobodyJoins([&] {
    MutexLock lock(mutex_);
    go_on();
  });
  ForgetSuperseded();
}

}  // namespace rivulet
