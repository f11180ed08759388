// rivulet coordinator: serves runs to clients on other machines or in other processes: the run of its command line, or
// runs that operators submit.
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "certificates/name.h"
#include "cli/command.h"
#include "cli/http_options.h"
#include "cli/interrupt.h"
#include "cli/run/event_line.h"
#include "cli/run/live_pages.h"
#include "cli/run/log_file.h"
#include "cli/run/options.h"
#include "cli/run/progress.h"
#include "cli/run/python_aggregation.h"
#include "cli/run/result.h"
#include "cli/run/security.h"
#include "cli/run/served_run.h"
#include "cli/run/watching.h"
#include "cli/shell_quote.h"
#include "coordinator/control/control.h"
#include "coordinator/control/metrics.h"
#include "coordinator/history/history.h"
#include "coordinator/host/coordinator_host.h"
#include "coordinator/stored_run.h"
#include "engine/base/clock.h"
#include "engine/base/rate_limited_log.h"
#include "federated/transport/allow_list.h"
#include "federated/transport/grpc_server.h"
#include "rpc/transfer_heap.h"
#include "setup/plan_file.h"

namespace rivulet {
namespace {

// The time for clients to receive the end of the run, including those that retry only rarely.
constexpr std::chrono::seconds kFarewell{20};

struct CoordinatorCommandOptions {
  ScenarioOptions run;
  AggregateOptions aggregate;
  std::string listen;
  std::string plan;
  std::string clients;
  bool aggregators = false;
  std::optional<int64_t> aggregator_clients;
  LogOptions log;
  SecurityOptions security;
  HttpOptions http;
  bool json = false;
  TraceOptions trace;
};

// The clients of a resumed run try to reach its coordinator, and may only succeed after its last round. Clients that an
// operator removed are not waited for.
Status ExpectKnownClients(const std::string& db, const std::string& run_id, ClientRegistry& roster) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(ResumePoint point, history->FindResumePoint(run_id));
  for (RunClient& client : point.clients)
    if (!roster.banned(client.client_id)) roster.end_notices().Expect(std::move(client.client_id));
  return absl::OkStatus();
}

// The layers between the runs and the port, from the inside out. Runs are added first, then the port is opened.
struct Front {
  explicit Front(bool outlives_runs)
      : host(outlives_runs), roster(std::make_shared<ClientRegistry>(host, [] { return Clock::System().UnixMs(); })) {}

  Status Open(const CoordinatorCommandOptions& options, const NetworkAddress& listen, Security security,
              std::function<StatusOr<std::string>(const RunSubmission&)> start,
              const std::function<void(const std::string&)>& tell) {
    RIVULET_ASSIGN_OR_RETURN(control, Control::Create({.host = &host,
                                                       .roster = roster.get(),
                                                       .db_path = options.run.db,
                                                       .now_unix_ms = [] { return Clock::System().UnixMs(); },
                                                       .start = std::move(start),
                                                       .warnings = std::move(security.warnings)}));
    roster->BoundAggregators(options.aggregator_clients.value_or(0));
    // Names may be invented, each for a log line.
    roster->OnDoubled(
        [log = std::make_shared<RateLimitedLog>(tell)](const std::string& sentence) { log->Tell(sentence); });
    CoordinatorApi* api = roster.get();
    if (!options.clients.empty()) {
      RIVULET_ASSIGN_OR_RETURN(
          admission, AllowList::Open(*roster, FileSystem::Default(), options.clients, tell,
                                     {.approved = [this](const std::string& name) { return roster->approved(name); },
                                      .on_stranger =
                                          [this](const std::string& name) {
                                            roster->Knocked(name, "it is not in --clients; approve it to admit it");
                                          }}));
      api = admission.get();
    }
    RIVULET_ASSIGN_OR_RETURN(server, GrpcServer::Start(*api, {.listen = listen,
                                                              .credentials = std::move(security.credentials),
                                                              .admit_aggregators = options.aggregators,
                                                              .limits = {},
                                                              .control = control.get(),
                                                              .on_revoked = [this](const RevokedPeer& peer) {
                                                                const auto name = ParseCertificateName(peer.name);
                                                                if (name.ok()) {
                                                                  control->Revoked(name->id, peer.serial,
                                                                                   peer.sentence);
                                                                }
                                                              }}));
    return absl::OkStatus();
  }
  // No more calls, and one opener of the history less.
  void Close() {
    if (server != nullptr) server->Stop(std::chrono::seconds(1));
    server.reset();
    control.reset();
  }

  CoordinatorHost host;
  std::shared_ptr<ClientRegistry> roster;
  std::unique_ptr<Control> control;
  std::unique_ptr<AllowList> admission;
  std::unique_ptr<GrpcServer> server;
};

// Operators see a client's refused updates and failures with the client.
CoordinatorObserver TellRoster(CoordinatorObserver observer, std::shared_ptr<ClientRegistry> roster) {
  observer.on_round = [roster = std::move(roster), tell = std::move(observer.on_round)](const RoundReport& report) {
    for (const RoundReport::Lost& lost : report.lost) roster->Failed(lost.client_id, lost.sentence);
    if (tell) tell(report);
  };
  return observer;
}

void SayListening(const NetworkAddress& address, const std::string& run_id, const std::shared_ptr<LogFile>& log,
                  bool json) {
  if (log != nullptr) {
    log->Write({"info", "coordinator", "listening on " + address.ToString(), {{"run_id", TextCell(run_id)}}});
  }
  if (json) {
    PrintEvent("listening", {{"address", address.ToString()}, {"run_id", TextCell(run_id)}});
  } else {
    fmt::print("listening on {}\n", address.ToString());
    std::fflush(stdout);
  }
}

// Pages of live runs, and metrics for Prometheus beside them; destroyed before `front`.
Status ShowPages(LivePages& pages, const CoordinatorCommandOptions& options, const Front& front,
                 const std::string& run_id, RoundProgress& progress) {
  if (pages.server() == nullptr) return absl::OkStatus();
  const double started = static_cast<double>(Clock::System().UnixMs()) / 1000;
  pages.server()->Handle("/metrics", [&front, started](const HttpRequest&) {
    return HttpReply{.content_type = kMetricsContentType,
                     .body = MetricsText(TakeMetrics(front.host, *front.roster, front.server->transferred(),
                                                     RIVULET_VERSION, started))};
  });
  RIVULET_ASSIGN_OR_RETURN(const std::string page, pages.Begin(options.run.db, run_id));
  if (options.json) {
    PrintEvent("page", {{"url", page}});
  } else {
    progress.Note("it shows at " + page);
  }
  return absl::OkStatus();
}

std::string MoreArguments(const CoordinatorCommandOptions& options, const std::string& address) {
  std::string more = "--listen " + address + ShellArguments(options.security) + ShellArguments(options.http);
  more += ShellArguments(options.aggregate);
  if (options.aggregators) more += " --aggregators";
  if (options.aggregator_clients) more += fmt::format(" --aggregator-clients {}", *options.aggregator_clients);
  if (!options.clients.empty()) more += " --clients " + ShellQuote(options.clients);
  return more;
}

// Serves one run, and then ends.
Status ServeOneRun(const CoordinatorCommandOptions& options, const NetworkAddress& listen, Security security,
                   Scenario scenario, std::shared_ptr<const Plan> plan, LivePages& pages, RoundProgress& progress,
                   Watching& watching, const std::shared_ptr<LogFile>& log,
                   const std::function<void(const std::string&)>& tell) {
  Interrupt interrupt;
  ServedRun served;  // before the front: its evaluator outlives the run
  auto front = std::make_unique<Front>(false);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<PythonAggregation> aggregation,
                           PythonAggregation::Start(options.aggregate));
  UseExternalAggregation(aggregation);
  CoordinatorObserver observer = TellRoster(ObserveRun(progress, options.json), front->roster);
  pages.Observe(observer);
  LogTo(log, observer);
  RIVULET_ASSIGN_OR_RETURN(served, MakeServedRun({.scenario = std::move(scenario),
                                                  .plan = std::move(plan),
                                                  .db = options.run.db,
                                                  .resume = options.run.resume,
                                                  .observer = std::move(observer),
                                                  .instruments = watching.instruments(),
                                                  .identity = security.identity}));
  const std::string run_id = served.coordinator->run_id();
  if (aggregation != nullptr) aggregation->BeginRun(options.run.db, run_id);
  if (served.coordinator->already_finished()) {
    served.coordinator.reset();
    progress.Note(fmt::format("run {} had finished; nothing to do", run_id));
    return PrintResult(options.run.db, run_id, options.json);
  }
  RIVULET_RETURN_IF_ERROR(front->host.Add(std::move(served.coordinator)));
  RIVULET_RETURN_IF_ERROR(front->Open(options, listen, std::move(security), nullptr, tell));
  if (!options.run.resume.empty()) RIVULET_RETURN_IF_ERROR(ExpectKnownClients(options.run.db, run_id, *front->roster));
  const NetworkAddress address = front->server->address();
  SayListening(address, run_id, log, options.json);
  RIVULET_RETURN_IF_ERROR(ShowPages(pages, options, *front, run_id, progress));
  interrupt.Call([&] { front->host.Stop(); });
  const Status status = front->host.WaitForAll();
  interrupt.Forget();
  progress.Finish();
  // A finished or failed run is reported to every client; after a stop they retry until it is resumed.
  const bool stopped = absl::IsCancelled(status);
  if (!stopped) (void)front->roster->end_notices().WaitUntilAllKnow(kFarewell);
  pages.End(status, options.run.db);
  front->Close();
  front.reset();  // with the run, which closes the history that is read next
  const Status traced = watching.Finish();
  if (stopped) {
    const Status told =
        InterruptedError("coordinator", options.run, MoreArguments(options, address.ToString()), run_id);
    return interrupt.asked() || !interrupt.happened() ? StoppedAsAsked(told) : told;
  }
  RIVULET_RETURN_IF_ERROR(status);
  RIVULET_RETURN_IF_ERROR(PrintResult(options.run.db, run_id, options.json));
  return traced;
}

// A run among others, with the objects that must outlive it.
struct SubmittedRun {
  std::unique_ptr<RoundProgress> progress;
  std::shared_ptr<Evaluator> evaluator;
  std::shared_ptr<ServerTraining> training;
};

CoordinatorObserver ObserveSubmitted(RoundProgress& progress, const std::string& name, bool json) {
  CoordinatorObserver observer = ObserveRun(progress, json);
  observer.on_finished = [&progress, name, json](const Status& status) {
    const std::string reason(Message(status));
    if (json) {
      const std::string end = status.ok() ? "finished" : absl::IsCancelled(status) ? "interrupted" : "failed";
      PrintEvent("run_over", {{"name", name}, {"status", end}, {"reason", TextCell(reason)}});
    } else {
      progress.Note(status.ok() ? fmt::format("run '{}' has finished", name)
                                : fmt::format("run '{}' is over: {}", name, reason));
      progress.Finish();
    }
  };
  return observer;
}

// Serves submitted runs until it is stopped. Clients wait here between them.
Status ServeSubmittedRuns(const CoordinatorCommandOptions& options, const NetworkAddress& listen, Security security,
                          LivePages& pages, RoundProgress& progress, Watching& watching,
                          const std::shared_ptr<LogFile>& log, const std::function<void(const std::string&)>& tell) {
  Interrupt interrupt;
  std::vector<SubmittedRun> submitted;  // before the front, as above
  auto front = std::make_unique<Front>(true);
  const auto begin = [&, identity = security.identity](ServedRunOptions run) -> StatusOr<std::string> {
    if (run.scenario.algorithm.name == kExternalRule) return RefuseSubmittedFunction("SCENARIO.toml");
    const std::string name = run.scenario.run.name;
    auto progress = std::make_unique<RoundProgress>(run.scenario.run.rounds);
    run.db = options.run.db;
    run.observer = TellRoster(ObserveSubmitted(*progress, name, options.json), front->roster);
    LogTo(log, run.observer);
    run.instruments = watching.instruments();
    run.identity = identity;
    RIVULET_ASSIGN_OR_RETURN(ServedRun served, MakeServedRun(std::move(run)));
    const std::string run_id = served.coordinator->run_id();
    // A restarted service resumes the newest run, which may already be finished.
    if (served.coordinator->already_finished()) {
      served.coordinator.reset();
      progress->Note(fmt::format("run {} had finished; waiting for submitted runs", run_id));
      return run_id;
    }
    if (options.json) {
      PrintEvent("run", {{"run_id", run_id}, {"name", name}});
    } else {
      progress->Note(fmt::format("run {} begins", run_id));
    }
    submitted.push_back({std::move(progress), std::move(served.evaluator), std::move(served.training)});
    RIVULET_RETURN_IF_ERROR(front->host.Add(std::move(served.coordinator)));
    return run_id;
  };
  if (!options.run.resume.empty()) {
    RIVULET_ASSIGN_OR_RETURN(Scenario scenario, ScenarioOfStoredRun(options.run.db, options.run.resume, Scenario{}));
    RIVULET_RETURN_IF_ERROR(
        begin({.scenario = std::move(scenario), .plan = nullptr, .db = "", .resume = options.run.resume}).status());
  }
  const auto start = [&](const RunSubmission& submission) -> StatusOr<std::string> {
    ServedRunOptions run;
    RIVULET_ASSIGN_OR_RETURN(run.scenario, Scenario::ParseStored(submission.scenario, "the submitted scenario"));
    if (!submission.plan.empty()) {
      RIVULET_ASSIGN_OR_RETURN(run.plan, Plan::Open(submission.plan));
    }
    run.arrays = submission.arrays;
    return begin(std::move(run));
  };
  RIVULET_RETURN_IF_ERROR(front->Open(options, listen, std::move(security), start, tell));
  const NetworkAddress address = front->server->address();
  SayListening(address, "", log, options.json);
  if (const Status shown = ShowPages(pages, options, *front, "", progress); !shown.ok()) {
    front->Close();  // later calls would reach objects that are destroyed with this function
    return shown;
  }
  std::promise<void> stop;
  interrupt.Call([&] { stop.set_value(); });
  stop.get_future().wait();
  interrupt.Forget();
  pages.End(absl::OkStatus(), options.run.db);
  front->host.Stop();
  (void)front->host.WaitForAll();
  std::string interrupted;
  for (const auto& run : front->host.runs()) {
    if (run->stopped()) interrupted += (interrupted.empty() ? "" : ", ") + run->run_id();
  }
  front->Close();
  front.reset();
  RIVULET_RETURN_IF_ERROR(watching.Finish());
  const Status told =
      interrupted.empty()
          ? Cancelled("the coordinator was stopped")
          : Cancelled("the coordinator was stopped with {}; to resume one: rivulet coordinator --db {} --resume RUN {}",
                      interrupted, ShellQuote(options.run.db), MoreArguments(options, address.ToString()));
  return interrupt.asked() ? StoppedAsAsked(told) : told;
}

Status CheckServesSubmitted(const CoordinatorCommandOptions& options) {
  const auto refused = [](const char* flag) {
    return UsageError(
        "{} needs a run from the command line; give SCENARIO.toml, or leave it out and submit runs with `rivulet "
        "submit`",
        flag);
  };
  if (!options.plan.empty()) return refused("--plan");
  if (!options.run.sets.empty()) return refused("--set");
  if (!options.aggregate.function.empty()) return refused("--aggregate");
  if (options.run.rounds) return refused("--rounds");
  if (options.run.seed) return refused("--seed");
  if (!options.run.kernels.empty()) return refused("--kernels");
  return absl::OkStatus();
}

Status Coordinate(const CoordinatorCommandOptions& options) {
  SetUpTransferHeap();
  if (options.aggregators && !options.aggregate.function.empty()) {
    return UsageError(
        "--aggregate reads the update of every client, and behind --aggregators clients' single updates are not seen "
        "here; give one of them");
  }
  if (!options.plan.empty() && !options.run.resume.empty()) {
    return UsageError("--plan starts a run, and --resume continues one with its stored plan; give one of them");
  }
  const bool submitted = options.run.scenario.empty();
  Scenario scenario;
  std::shared_ptr<const Plan> plan;  // null: built from the scenario
  if (submitted) {
    RIVULET_RETURN_IF_ERROR(CheckServesSubmitted(options));
  } else {
    // A plan states how its updates are aggregated.
    const bool by_function = options.plan.empty();
    RIVULET_ASSIGN_OR_RETURN(scenario,
                             by_function ? LoadScenario(options.run, options.aggregate) : LoadScenario(options.run));
  }
  if (!options.plan.empty()) {
    RIVULET_ASSIGN_OR_RETURN(PlanFile file, ReadPlanFile(FileSystem::Default(), options.plan, scenario));
    plan = std::move(file.plan);
    scenario = std::move(file.scenario);
    RIVULET_RETURN_IF_ERROR(CheckFunctionOfPlan(scenario, options.aggregate));
  }
  StatusOr<NetworkAddress> listen = ParseAddress(options.listen);
  if (!listen.ok()) return AsUsageError(Annotate(listen.status(), "--listen"));
  RoundProgress progress(scenario.run.rounds);
  if (!options.clients.empty()) {  // checked before anything is written
    RIVULET_ASSIGN_OR_RETURN(const std::string names, FileSystem::Default().ReadAll(options.clients));
    RIVULET_RETURN_IF_ERROR(ParseClientNames(names, options.clients).status());
  }
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<LogFile> log, LogFile::Open(options.log));
  const auto tell = [&progress, log, json = options.json](const std::string& sentence) {
    if (log != nullptr) log->Write({"warning", "security", sentence});
    const EventRow event{
        .at = Iso8601(Clock::System().UnixMs()), .level = "warning", .source = "security", .message = sentence};
    json ? PrintEventRow(event) : progress.Event(event);
  };
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<LivePages> pages,
                           LivePages::Create(options.http, options.run.db, scenario.run.rounds, tell));
  RIVULET_ASSIGN_OR_RETURN(Security security,
                           SecurityOf(options.security, Role::kCoordinator, *listen, options.run.db, tell));
  security.warnings = [of_port = std::move(security.warnings), &pages] {
    std::vector<std::string> warnings = of_port ? of_port() : std::vector<std::string>();
    if (pages->server() == nullptr) return warnings;
    for (std::string& warning : pages->server()->warnings()) warnings.push_back(std::move(warning));
    return warnings;
  };
  RIVULET_ASSIGN_OR_RETURN(
      const std::unique_ptr<Watching> watching,
      Watching::Start(options.trace, submitted ? std::string("coordinator") : "coordinator " + scenario.run.name));
  if (submitted)
    return ServeSubmittedRuns(options, *listen, std::move(security), *pages, progress, *watching, log, tell);
  return ServeOneRun(options, *listen, std::move(security), std::move(scenario), std::move(plan), *pages, progress,
                     *watching, log, tell);
}

const RegisterCommand kCoordinator(20, [] {
  auto options = std::make_shared<CoordinatorCommandOptions>();
  Command command{.name = "coordinator",
                  .summary = "Serve runs to clients over the network.",
                  .example =
                      "rivulet coordinator scenario.toml --listen 0.0.0.0:7000 --tls coordinator-fl.example.org\n"
                      "  rivulet coordinator simulations/scenarios/mnist-fedavg.toml --listen 127.0.0.1:7000 "
                      "--insecure --set data.partition.clients=5 --set server.clients_per_round=2\n"
                      "  rivulet coordinator --listen 0.0.0.0:7000 --tls coordinator-fl.example.org"};
  AddScenarioOptions(command, &options->run,
                     "the scenario to run; without it, run the scenarios that operators submit (rivulet submit)");
  AddAggregateOptions(command, &options->aggregate);
  command.Required("--listen", "HOST:PORT", &options->listen, "listening address; port 0 takes any free one");
  command.Option("--plan", "FILE", &options->plan,
                 "start a run with this plan of `rivulet plan build` and the keys beside it; the scenario then gives "
                 "only keys of the classes operation and place");
  AddSecurityOptions(command, &options->security);
  command.Option("--clients", "FILE", &options->clients,
                 "admit only the clients named in this file, one a line; names may be added during the run");
  command
      .Flag("--aggregators", &options->aggregators,
            "admit aggregators (rivulet aggregator); their clients' single updates do not arrive here")
      .Formerly("--tiers");
  command.Option("--aggregator-clients", "N", &options->aggregator_clients,
                 "largest number of clients of one aggregator outside --clients [no limit]", {1, 1'000'000'000});
  AddHttpOptions(command, &options->http,
                 "serve live pages of the run (of submitted ones their closed rounds), and /metrics for Prometheus");
  command.Flag("--json", &options->json, "print events as JSON on stdout, one object per line, the result last");
  AddLogOptions(command, &options->log);
  AddTraceOptions(command, &options->trace);
  command.run = [options] { return Coordinate(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
