#include "cli/run/served_run.h"

#include <utility>

#include "cli/run/event_line.h"
#include "coordinator/stored_run.h"
#include "setup/blame_model.h"
#include "setup/run_setup.h"
#include "simulations/fine_tuning.h"

namespace rivulet {
namespace {

Fields RoundFields(const RoundReport& report) {
  Fields fields = {{"round", report.round},
                   {"attempt", report.attempt},
                   {"status", report.status},
                   {"reason", TextCell(report.reason)},
                   {"selected", report.selected},
                   {"folded", report.folded},
                   {"train_loss", CellOrNull(report.train_loss)},
                   {"train_seconds", report.train_seconds},
                   {"aggregate_seconds", report.aggregate_seconds},
                   {"evaluate_seconds", report.evaluate_seconds}};
  if (report.status == "committed") fields.emplace_back("model_digest", report.model_digest.Hex());
  for (const auto& [name, value] : report.central) fields.emplace_back(name, value);
  return fields;
}

}  // namespace

void PrintEventRow(const EventRow& event) {
  PrintEvent("event", {{"at", event.at}, {"level", event.level}, {"source", event.source}, {"message", event.message}});
}

CoordinatorObserver ObserveRun(RoundProgress& progress, bool json) {
  CoordinatorObserver observer;
  if (!json) {
    progress.Observe(observer);
    observer.on_event = [&progress](const EventRow& event) { progress.Event(event); };
    return observer;
  }
  observer.on_offer = [](const std::string& client_id) { PrintEvent("offer", {{"client_id", client_id}}); };
  observer.on_progress = [](int64_t round, int64_t folded, int64_t selected) {
    PrintEvent("progress", {{"round", round}, {"folded", folded}, {"selected", selected}});
  };
  observer.on_event = PrintEventRow;
  observer.on_round = [](const RoundReport& report) { PrintEvent("round", RoundFields(report)); };
  observer.on_evaluation = [](const EvaluationReport& report) {
    Fields fields = {{"round", report.round},
                     {"reason", TextCell(report.reason)},
                     {"selected", report.selected},
                     {"folded", report.folded}};
    for (const auto& [name, value] : report.federated) fields.emplace_back(name, value);
    PrintEvent("evaluation", fields);
  };
  return observer;
}

void LogTo(const std::shared_ptr<LogFile>& log, CoordinatorObserver& observer) {
  if (log == nullptr) return;
  observer.on_event = [log, tell = std::move(observer.on_event)](const EventRow& event) {
    log->Write({event.level,
                event.source,
                event.message,
                {{"run_id", TextCell(event.run_id)},
                 {"round", CellOrNull(event.round)},
                 {"client_id", TextCell(event.client_id)},
                 {"task_id", TextCell(event.task_id)}}});
    if (tell) tell(event);
  };
  observer.on_round = [log, tell = std::move(observer.on_round)](const RoundReport& report) {
    const bool made = report.status == "committed";
    Fields fields = RoundFields(report);
    fields.insert(fields.begin(), {"run_id", report.run_id});
    log->Write({made ? "info" : "warning", "round",
                made ? fmt::format("round {} was committed with {} of {} updates", report.round, report.folded,
                                   report.selected)
                     : fmt::format("round {} is {}: {}", report.round, report.status, report.reason),
                std::move(fields)});
    for (const RoundReport::Lost& lost : report.lost) {
      log->Write({"warning",
                  "client",
                  lost.sentence,
                  {{"run_id", report.run_id},
                   {"round", report.round},
                   {"client_id", lost.client_id},
                   {"task_id", lost.task}}});
    }
    if (tell) tell(report);
  };
  observer.on_evaluation = [log, tell = std::move(observer.on_evaluation)](const EvaluationReport& report) {
    Fields fields = {{"run_id", report.run_id}, {"round", report.round}};
    for (const auto& [name, value] : report.federated) fields.emplace_back(name, value);
    const bool made = report.reason.empty();
    log->Write(
        {made ? "info" : "warning", "evaluation",
         made ? fmt::format("{} of {} clients have measured round {}", report.folded, report.selected, report.round)
              : fmt::format("round {} is not measured: {}", report.round, report.reason),
         std::move(fields)});
    if (tell) tell(report);
  };
  observer.on_finished = [log, tell = std::move(observer.on_finished)](const Status& status) {
    log->Write({status.ok() || absl::IsCancelled(status) ? "info" : "error", "run",
                status.ok() ? "the run has finished" : std::string(Message(status))});
    if (tell) tell(status);
  };
}

StatusOr<ServedRun> MakeServedRun(ServedRunOptions options) {
  if (!options.resume.empty()) {
    RIVULET_ASSIGN_OR_RETURN(options.plan, PlanOfStoredRun(options.db, options.resume));
  }
  CoordinatorOptions coordinator_options{.db_path = options.db, .resume = options.resume};
  ServedRun served;
  {
    RunSetup setup(
        options.scenario,
        {.plan = std::move(options.plan), .arrays = std::move(options.arrays), .monitor = options.instruments.steps});
    auto opened = setup.plan();
    if (!opened.ok()) return BlameModel(options.scenario, opened.status());
    coordinator_options.plan = *std::move(opened);
    if (options.resume.empty()) {
      RIVULET_ASSIGN_OR_RETURN(coordinator_options.initial_model, setup.initial_model());
    }
    RIVULET_ASSIGN_OR_RETURN(coordinator_options.base, setup.base());
    RIVULET_ASSIGN_OR_RETURN(served.evaluator, setup.evaluator());
    RIVULET_ASSIGN_OR_RETURN(served.training, FineTuning(setup));
  }
  coordinator_options.evaluator = served.evaluator.get();
  coordinator_options.training = served.training.get();
  coordinator_options.tracer = options.instruments.tracer;
  coordinator_options.observer = std::move(options.observer);
  coordinator_options.scenario = std::move(options.scenario);
  coordinator_options.identity = std::move(options.identity);
  RIVULET_ASSIGN_OR_RETURN(served.coordinator, Coordinator::Create(std::move(coordinator_options)));
  return served;
}

}  // namespace rivulet
