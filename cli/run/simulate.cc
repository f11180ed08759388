// rivulet simulate: a federated run in one process, or one with virtual clients in other processes too; or a stored
// run, repeated to verify it.
#include <memory>

#include "cli/command.h"
#include "cli/http_options.h"
#include "cli/interrupt.h"
#include "cli/run/device_option.h"
#include "cli/run/dry_run.h"
#include "cli/run/gpu_trace.h"
#include "cli/run/live_pages.h"
#include "cli/run/options.h"
#include "cli/run/prepare_data.h"
#include "cli/run/progress.h"
#include "cli/run/python_aggregation.h"
#include "cli/run/replay_here.h"
#include "cli/run/result.h"
#include "cli/run/watching.h"
#include "cli/run/worker_server.h"
#include "cli/shell_quote.h"
#include "cli/terminal.h"
#include "engine/base/join.h"
#include "engine/base/table.h"
#include "inspect/summary_log.h"
#include "setup/blame_model.h"
#include "setup/model.h"
#include "simulations/launchers/open_ranks.h"
#include "simulations/launchers/rank_crew.h"
#include "simulations/simulator.h"

namespace rivulet {
namespace {

struct SimulateOptions {
  ScenarioOptions run;
  std::optional<int64_t> workers, memory;
  DeviceOptions device;
  bool json = false, dry_run = false;
  std::string replay;
  WorkersAt workers_at;
  AggregateOptions aggregate;
  std::string logdir;
  HttpOptions http;
  TraceOptions trace;
};

// The options that the command must repeat to resume a run.
std::string MoreArguments(const SimulateOptions& options) {
  std::vector<std::string> more;
  if (options.workers) more.push_back(fmt::format("--workers {}", *options.workers));
  if (!options.aggregate.function.empty()) more.push_back(ShellArguments(options.aggregate).substr(1));
  if (options.memory) more.push_back(fmt::format("--memory {}", *options.memory));
  if (const std::string device = ShellArguments(options.device); !device.empty()) more.push_back(device.substr(1));
  if (!options.workers_at.address.empty()) {
    more.push_back("--workers-at " + options.workers_at.address + ShellArguments(options.workers_at.security));
  }
  if (!options.logdir.empty()) more.push_back("--logdir " + ShellQuote(options.logdir));
  if (const std::string http = ShellArguments(options.http); !http.empty()) more.push_back(http.substr(1));
  return Join(more, " ");
}

StatusOr<std::unique_ptr<LivePages>> PagesOf(const SimulateOptions& options, const Scenario& scenario,
                                             RoundProgress& progress) {
  return LivePages::Create(options.http, options.run.db, scenario.run.rounds,
                           [&progress](const std::string& sentence) { progress.Note(sentence); });
}

Status ShowPages(LivePages& pages, const SimulateOptions& options, const std::string& run_id, RoundProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const std::string page, pages.Begin(options.run.db, run_id));
  if (!page.empty()) progress.Note("it shows at " + page);
  return absl::OkStatus();
}

// The history is only read: a replay that differs must not change the record.
Status ReplayRun(const SimulateOptions& options) {
  if (!options.run.resume.empty()) return UsageError("--replay repeats a run and --resume continues one");
  ScenarioOptions of_run = options.run;
  of_run.resume = options.replay;
  ReplayOptions replay{
      .db_path = options.run.db, .run = options.replay, .workers = static_cast<int>(options.workers.value_or(0))};
  RIVULET_ASSIGN_OR_RETURN(replay.scenario, LoadScenario(of_run));
  if (const Status graph = RequireGraph(replay.scenario); !graph.ok()) return AsUsageError(graph);
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(replay.scenario));
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Watching> watching,
                           Watching::Start(options.trace, "replay " + options.replay));
  replay.instruments = watching->instruments();
  const StatusOr<ReplayResult> result = ReplayHere(std::move(replay));
  const Status traced = watching->Finish();
  RIVULET_RETURN_IF_ERROR(result.status());
  if (options.json) {
    fmt::print("{}\n", JsonObject({{"run_id", result->run_id},
                                   {"versions", result->versions},
                                   {"tasks", result->tasks},
                                   {"model_digest", result->model_digest.Hex()}}));
  } else {
    fmt::print("run {}: {} versions of {} tasks are as recorded\n{:<13} {}\n", result->run_id, result->versions,
               result->tasks, "model digest", result->model_digest.Hex());
  }
  return traced;
}

// Checks for options that exclude one another.
Status CheckOptions(const SimulateOptions& options) {
  const bool others = !options.workers_at.address.empty();
  if (!options.replay.empty() && others) {
    return UsageError("--replay does a run again here, and with --workers-at others train too; give one of them");
  }
  if (options.memory && (!options.replay.empty() || options.dry_run || options.device.device != "cpu")) {
    return UsageError("--memory limits the training threads here; leave it out with --replay, --dry-run and --device");
  }
  if (!options.replay.empty() && !options.logdir.empty()) {
    return UsageError(
        "--replay does recorded rounds again, which 'rivulet runs export --tensorboard' writes; leave --logdir");
  }
  if (!options.replay.empty() && !options.http.address.empty()) {
    return UsageError("--replay does recorded rounds again, which 'rivulet dashboard' shows; leave --http");
  }
  if (options.device.device != "cpu" && (!options.replay.empty() || others || options.dry_run)) {
    return UsageError(
        "--device chooses this process's device for training; leave it out with --replay, --workers-at and --dry-run");
  }
  if (options.dry_run && (!options.replay.empty() || others)) {
    return UsageError("--dry-run estimates a run in this process; leave out --replay and --workers-at");
  }
  if (!options.aggregate.function.empty() && !options.replay.empty()) {
    return UsageError(
        "--replay compares a run with its history, and a function in Python may differ; leave --aggregate");
  }
  if (!others && options.workers == 0) {
    return UsageError("--workers 0 leaves no worker; give at least 1, or --workers-at to accept others");
  }
  if (!others && (!options.workers_at.security.tls.empty() || options.workers_at.security.insecure > 0)) {
    return UsageError("--tls and --insecure are for workers that call, and without --workers-at none do; leave them");
  }
  return absl::OkStatus();
}

// Chooses the device of a rank on its machine; null without ranks.
ChooseOne OneOf(const Ranks* ranks) {
  if (ranks == nullptr) return nullptr;
  return [ranks](size_t devices) { return DeviceOfRank(*ranks, devices); };
}

// The part of the process with the coordinator.
Status Lead(const SimulateOptions& options, Ranks* ranks) {
  RIVULET_RETURN_IF_ERROR(CheckOptions(options));
  if (ranks != nullptr && (!options.replay.empty() || !options.workers_at.address.empty())) {
    return UsageError("--replay and --workers-at are for one process, and MPI has started {}; leave them, or mpirun",
                      ranks->size());
  }
  if (!options.replay.empty()) return ReplayRun(options);
  const bool others = !options.workers_at.address.empty();
  const auto workers = static_cast<int>(options.workers.value_or(0));
  Security security;
  if (others) {
    RIVULET_ASSIGN_OR_RETURN(security,
                             SecurityOfWorkers(options.workers_at, options.run.db, [](const std::string& sentence) {
                               PrintNote(OneLine(sentence), Note::kImportant);
                             }));
  }
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run, options.aggregate));
  if (!others || workers > 0) RIVULET_RETURN_IF_ERROR(AsUsageError(RequireGraph(scenario)));
  if (!others || !scenario.data.train.empty()) RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  RIVULET_ASSIGN_OR_RETURN(const TrainingDevice device, DeviceOf(options.device, OneOf(ranks)));
  if (options.workers && workers < device.count()) {
    return UsageError("--workers {} leaves some of {} GPUs without one; give at least {}, or name fewer GPUs", workers,
                      device.count(), device.count());
  }
  if (options.dry_run) return DryRun(scenario, workers, options.json);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<PythonAggregation> aggregation,
                           PythonAggregation::Start(options.aggregate));
  UseExternalAggregation(aggregation);
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Watching> watching,
                           Watching::Start(options.trace, "simulate " + scenario.run.name));
  Interrupt interrupt;
  RoundProgress progress(scenario.run.rounds);
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<LivePages> pages, PagesOf(options, scenario, progress));
  SimulationOptions simulation_options{.db_path = options.run.db,
                                       .resume = options.run.resume,
                                       .workers = workers,
                                       .memory = options.memory.value_or(0) * 1'000'000,
                                       .device = device,
                                       .soft_placement = options.device.soft,
                                       .others_train = others,
                                       .ranks = ranks};
  simulation_options.instruments = watching->instruments();
  progress.Observe(simulation_options.observer);
  const auto note = [&progress](const std::string& sentence) { progress.Note(sentence); };
  simulation_options.note = note;
  GpuTrace on_gpu = GpuTrace::Start(watching->instruments().tracer, device, note);
  SummaryLog log(note);
  if (!options.logdir.empty()) log.Observe(simulation_options.observer);
  pages->Observe(simulation_options.observer);
  simulation_options.scenario = scenario;
  StatusOr<std::unique_ptr<Simulation>> created = Simulation::Create(std::move(simulation_options));
  if (!created.ok()) return BlameModel(scenario, created.status());
  std::unique_ptr<Simulation> simulation = *std::move(created);
  const std::string run_id = simulation->run_id();
  if (aggregation != nullptr) aggregation->BeginRun(options.run.db, run_id);
  if (!options.logdir.empty()) RIVULET_RETURN_IF_ERROR(log.Begin(options.logdir, options.run.db, run_id));
  std::unique_ptr<WorkerServer> server;
  if (others && !simulation->coordinator().already_finished()) {
    RIVULET_ASSIGN_OR_RETURN(server, WorkerServer::Start(*simulation, scenario, options.workers_at, security, note));
    progress.Note("listening on " + server->address().ToString());
  }
  RIVULET_RETURN_IF_ERROR(ShowPages(*pages, options, run_id, progress));
  interrupt.Call([&] { simulation->Stop(); });
  const StatusOr<SimulationResult> result = simulation->Run();
  interrupt.Forget();
  progress.Finish();
  const bool interrupted = absl::IsCancelled(result.status()) && interrupt.happened();
  if (server != nullptr && !interrupted) server->SayFarewell();
  server.reset();
  pages->End(result.status(), options.run.db);
  simulation.reset();  // closes the history, which is read next
  log.End(options.run.db, run_id);
  Status traced = on_gpu.Finish();
  traced.Update(watching->Finish());
  if (interrupted) return InterruptedError("simulate", options.run, MoreArguments(options), run_id);
  RIVULET_RETURN_IF_ERROR(result.status());
  if (result->already_finished) progress.Note(fmt::format("run {} had finished; nothing to do", run_id));
  RIVULET_RETURN_IF_ERROR(PrintResult(options.run.db, run_id, options.json));
  return traced;
}

// Started by mpirun, all processes call this; the others follow the first one.
Status Simulate(const SimulateOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<Ranks> ranks, OpenRanks());
  if (ranks == nullptr) return Lead(options, nullptr);
  if (ranks->rank() > 0) {
    Interrupt interrupt;  // mpirun sends it to every process, and the first one handles it
    // The first rank has received the errors of tasks, and reports them.
    StatusOr<TrainingDevice> device = DeviceOf(options.device, OneOf(ranks.get()));
    if (device.ok()) device->soft = options.device.soft;
    const Status followed =
        FollowRanks(*ranks, {.workers = static_cast<int>(options.workers.value_or(0)), .device = std::move(device)});
    // MPI's shutdown would wait for rank 0, which waits for an answer. mpirun ends all ranks if one process fails.
    if (!followed.ok()) (void)ranks.release();
    return followed;
  }
  const Status status = Lead(options, ranks.get());
  DismissRanks(*ranks);
  // After an interrupt mpirun ends all processes a second later. MPI's shutdown waits for all of them, so the message
  // about resuming would come too late.
  if (absl::IsCancelled(status)) (void)ranks.release();
  return status;
}

const RegisterCommand kSimulate(10, [] {
  auto options = std::make_shared<SimulateOptions>();
  Command command{.name = "simulate",
                  .summary = "Run a federation of virtual clients in this process, and in others.",
                  .example = "rivulet simulate quickstart --rounds 5 --set client.epochs=2"};
  AddScenarioOptions(command, &options->run);
  command
      .Option("--workers", "N", &options->workers,
              "threads that train clients here; the result is the same for any number [one per core or per GPU; none "
              "with --workers-at]",
              {0, 1024})
      .Option(
          "--memory", "MEGABYTES", &options->memory,
          "memory for concurrent tasks; fewer threads train if the planned memory exceeds it [this process's limit]",
          {1, 1'000'000'000})
      .Option("--workers-at", "HOST:PORT", &options->workers_at.address,
              "accept workers: 'rivulet worker --simulation HOST:PORT', which join and leave at any time, or Python's "
              "rivulet.simulate(client_fn=...); port 0 takes any free one")
      .Option("--logdir", "DIR", &options->logdir,
              "write each round's numbers to DIR/RUN_ID as it closes, for tensorboard --logdir DIR")
      .Flag("--json", &options->json, "print the result as one JSON object")
      .Flag("--dry-run", &options->dry_run,
            "train one client only, and estimate the run: its parts, duration and planned memory")
      .Option("--replay", "RUN", &options->replay,
              "replay the recorded tasks of a run, by id, name or 'latest', and compare each version with its history");
  AddAggregateOptions(command, &options->aggregate);
  AddDeviceOptions(command, &options->device);
  AddSecurityOptions(command, &options->workers_at.security);
  AddHttpOptions(command, &options->http, "serve live pages of the run, for a browser");
  AddTraceOptions(command, &options->trace);
  command.run = [options] { return Simulate(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
