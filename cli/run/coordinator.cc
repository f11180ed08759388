// rivulet coordinator: serves one run to clients on other machines or in other processes.
#include "coordinator/coordinator.h"

#include <malloc.h>

#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/blame_model.h"
#include "cli/run/event_line.h"
#include "cli/run/options.h"
#include "cli/run/progress.h"
#include "cli/run/result.h"
#include "cli/run/security.h"
#include "cli/run/watching.h"
#include "coordinator/history/history.h"
#include "coordinator/host/coordinator_host.h"
#include "coordinator/stored_run.h"
#include "engine/base/clock.h"
#include "federated/transport/admission.h"
#include "federated/transport/attendance.h"
#include "federated/transport/grpc_server.h"
#include "setup/plan_file.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

// How long clients get to learn that the run is over, those included that try to reach it again only now and then.
constexpr std::chrono::seconds kFarewell{20};

struct CoordinatorCommandOptions {
  ScenarioOptions run;
  std::string listen;
  std::string plan;
  std::string clients;
  bool tiers = false;
  SecurityOptions security;
  bool json = false;
  TraceOptions trace;
};

Fields RoundFields(const RoundReport& report) {
  Fields fields = {{"round", report.round},
                   {"attempt", report.attempt},
                   {"status", report.status},
                   {"reason", TextCell(report.reason)},
                   {"selected", report.selected},
                   {"folded", report.folded},
                   {"train_loss", report.train_loss},
                   {"train_seconds", report.train_seconds},
                   {"aggregate_seconds", report.aggregate_seconds},
                   {"evaluate_seconds", report.evaluate_seconds}};
  if (report.status == "committed") fields.emplace_back("model_digest", report.model_digest.Hex());
  for (const auto& [name, value] : report.central) fields.emplace_back(name, value);
  return fields;
}

// The clients of a run that goes on are trying to reach its coordinator, and may do so only after its last round.
Status ExpectKnownClients(const std::string& db, const std::string& run_id, Attendance& attendance) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(ResumePoint point, history->FindResumePoint(run_id));
  for (RunClient& client : point.clients) attendance.Expect(std::move(client.client_id));
  return absl::OkStatus();
}

void TellEvent(const EventRow& event) {
  PrintEvent("event", {{"at", event.at}, {"level", event.level}, {"source", event.source}, {"message", event.message}});
}

CoordinatorObserver Observe(RoundProgress& progress, bool json) {
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
  observer.on_event = TellEvent;
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

Status Coordinate(const CoordinatorCommandOptions& options) {
  // Uploads pass through many threads; in an arena per thread their freed buffers would stay, a quarter of the process.
  mallopt(M_ARENA_MAX, 2);
  if (!options.plan.empty() && !options.run.resume.empty()) {
    return UsageError(
        "--plan starts a run, and --resume goes on with one and the plan that it keeps; give one of them");
  }
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run));
  std::shared_ptr<const Plan> plan;  // null: built from the scenario
  if (!options.plan.empty()) {
    RIVULET_ASSIGN_OR_RETURN(PlanFile file, ReadPlanFile(FileSystem::Default(), options.plan, scenario));
    plan = std::move(file.plan);
    scenario = std::move(file.scenario);
  }
  StatusOr<NetworkAddress> listen = ParseAddress(options.listen);
  if (!listen.ok()) return AsUsageError(Annotate(listen.status(), "--listen"));
  RoundProgress progress(scenario.run.rounds);
  if (!options.clients.empty()) {  // found before anything is written
    RIVULET_ASSIGN_OR_RETURN(const std::string names, FileSystem::Default().ReadAll(options.clients));
    RIVULET_RETURN_IF_ERROR(ParseClientNames(names, options.clients).status());
  }
  const auto tell = [&progress, json = options.json](const std::string& sentence) {
    const EventRow event{
        .at = Iso8601(Clock::System().UnixMs()), .level = "warning", .source = "security", .message = sentence};
    json ? TellEvent(event) : progress.Event(event);
  };
  RIVULET_ASSIGN_OR_RETURN(Security security, SecurityOf(options.security, Role::kCoordinator, *listen, tell));

  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Watching> watching,
                           Watching::Start(options.trace, "coordinator " + scenario.run.name));
  Interrupt interrupt;
  CoordinatorOptions coordinator_options{.db_path = options.run.db, .resume = options.run.resume};
  std::shared_ptr<Evaluator> evaluator;
  {
    // Training data stays with the clients, and the model as it was read is not needed while the run goes on.
    if (!options.run.resume.empty()) {
      RIVULET_ASSIGN_OR_RETURN(plan, PlanOfStoredRun(options.run.db, options.run.resume));
    }
    RunSetup setup(scenario, {.plan = std::move(plan), .monitor = watching->instruments().steps});
    auto opened = setup.plan();
    if (!opened.ok()) return BlameModel(scenario, opened.status());
    coordinator_options.plan = *std::move(opened);
    if (options.run.resume.empty()) {
      RIVULET_ASSIGN_OR_RETURN(coordinator_options.initial_model, setup.initial_model());
    }
    RIVULET_ASSIGN_OR_RETURN(evaluator, setup.evaluator());
  }
  coordinator_options.evaluator = evaluator.get();
  coordinator_options.tracer = watching->instruments().tracer;
  coordinator_options.observer = Observe(progress, options.json);
  coordinator_options.scenario = std::move(scenario);
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Coordinator> coordinator,
                           Coordinator::Create(std::move(coordinator_options)));
  const std::string run_id = coordinator->run_id();
  if (coordinator->already_finished()) {
    coordinator.reset();
    progress.Note(fmt::format("run {} had finished; nothing to do", run_id));
    return PrintResult(options.run.db, run_id, options.json);
  }

  auto host = std::make_unique<CoordinatorHost>();
  RIVULET_RETURN_IF_ERROR(host->Add(std::move(coordinator)));
  Attendance attendance(*host);
  if (!options.run.resume.empty()) RIVULET_RETURN_IF_ERROR(ExpectKnownClients(options.run.db, run_id, attendance));
  CoordinatorApi* api = &attendance;
  std::unique_ptr<Admission> admission;
  if (!options.clients.empty()) {
    RIVULET_ASSIGN_OR_RETURN(admission, Admission::Open(attendance, FileSystem::Default(), options.clients, tell));
    api = admission.get();
  }
  RIVULET_ASSIGN_OR_RETURN(
      std::unique_ptr<GrpcServer> server,
      GrpcServer::Start(
          *api, {.listen = *listen, .credentials = std::move(security.credentials), .admit_tiers = options.tiers}));
  const std::string address = server->address().ToString();
  if (options.json) {
    PrintEvent("listening", {{"address", address}, {"run_id", run_id}});
  } else {
    fmt::print("listening on {}\n", address);
    std::fflush(stdout);
  }
  interrupt.Call([&] { host->Stop(); });
  const Status status = host->WaitForAll();
  interrupt.Forget();
  progress.Finish();
  // A finished or failed run is told to every client; after an interruption they keep trying until it goes on.
  const bool interrupted = absl::IsCancelled(status) && interrupt.happened();
  if (!interrupted) (void)attendance.WaitUntilAllKnow(kFarewell);
  server->Stop(std::chrono::seconds(1));
  server.reset();
  host.reset();  // with the run, which closes the history that is read next
  const Status traced = watching->Finish();
  if (interrupted) {
    std::string more = "--listen " + address + ShellArguments(options.security);
    if (options.tiers) more += " --tiers";
    if (!options.clients.empty()) more += " --clients " + ShellQuote(options.clients);
    const Status told = InterruptedError("coordinator", options.run, more, run_id);
    return interrupt.asked() ? StoppedAsAsked(told) : told;
  }
  RIVULET_RETURN_IF_ERROR(status);
  RIVULET_RETURN_IF_ERROR(PrintResult(options.run.db, run_id, options.json));
  return traced;
}

const RegisterCommand kCoordinator(20, [] {
  auto options = std::make_shared<CoordinatorCommandOptions>();
  Command command{.name = "coordinator",
                  .summary = "Serve a run to clients over the network.",
                  .example =
                      "rivulet coordinator scenario.toml --listen 0.0.0.0:7000 --tls coordinator-fl.example.org\n"
                      "  rivulet coordinator simulations/scenarios/mnist-fedavg.toml --listen 127.0.0.1:7000 "
                      "--insecure --set data.partition.clients=5 --set server.clients_per_round=2"};
  AddScenarioOptions(command, &options->run);
  command.Required("--listen", "HOST:PORT", &options->listen, "where clients reach it; port 0 takes any free one");
  command.Option(
      "--plan", "FILE", &options->plan,
      "start a run with this plan, of `rivulet plan build`, and the keys beside it; of the scenario count only "
      "keys of the classes operation and place");
  AddSecurityOptions(command, &options->security);
  command.Option("--clients", "FILE", &options->clients,
                 "admit only the clients that it names, one a line; a name may be added while it runs");
  command.Flag("--tiers", &options->tiers,
               "admit tiers (rivulet aggregator), which fold what their clients bring: nobody here sees a single one");
  command.Flag("--json", &options->json, "say what happens as JSON on stdout, one object per line, the result last");
  AddTraceOptions(command, &options->trace);
  command.run = [options] { return Coordinate(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
