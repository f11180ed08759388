// rivulet simulate: a federated run in one process; a new one, or a stored one done again to verify it.
#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/blame_model.h"
#include "cli/run/options.h"
#include "cli/run/prepare_data.h"
#include "cli/run/progress.h"
#include "cli/run/result.h"
#include "cli/run/watching.h"
#include "cli/table.h"
#include "setup/model.h"
#include "simulations/replay.h"
#include "simulations/simulator.h"

namespace rivulet {
namespace {

struct SimulateOptions {
  ScenarioOptions run;
  std::optional<int64_t> workers;
  bool json = false;
  std::string replay;
  TraceOptions trace;
};

// The history is only read: a run that comes out otherwise is no reason to change what is recorded of it.
Status ReplayRun(const SimulateOptions& options) {
  if (!options.run.resume.empty()) return UsageError("--replay does a run again and --resume goes on with one");
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
  replay.on_version = [](int64_t version, int64_t versions) {
    fmt::print(stderr, "version {} of {} comes out as recorded\n", version, versions);
  };
  const StatusOr<ReplayResult> result = Replay(replay);
  const Status traced = watching->Finish();
  RIVULET_RETURN_IF_ERROR(result.status());
  if (options.json) {
    fmt::print("{}\n", JsonObject({{"run_id", result->run_id},
                                   {"versions", result->versions},
                                   {"tasks", result->tasks},
                                   {"model_digest", result->model_digest.Hex()}}));
  } else {
    fmt::print("run {}: {} versions of {} tasks come out as recorded\n{:<13} {}\n", result->run_id, result->versions,
               result->tasks, "model digest", result->model_digest.Hex());
  }
  return traced;
}

Status Simulate(const SimulateOptions& options) {
  if (!options.replay.empty()) return ReplayRun(options);
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run));
  if (const Status graph = RequireGraph(scenario); !graph.ok()) return AsUsageError(graph);
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Watching> watching,
                           Watching::Start(options.trace, "simulate " + scenario.run.name));
  Interrupt interrupt;
  RoundProgress progress(scenario.run.rounds);
  SimulationOptions simulation_options{.db_path = options.run.db,
                                       .resume = options.run.resume,
                                       .workers = static_cast<int>(options.workers.value_or(0))};
  simulation_options.instruments = watching->instruments();
  progress.Observe(simulation_options.observer);
  simulation_options.scenario = scenario;
  StatusOr<std::unique_ptr<Simulation>> created = Simulation::Create(std::move(simulation_options));
  if (!created.ok()) return BlameModel(scenario, created.status());
  std::unique_ptr<Simulation> simulation = *std::move(created);
  const std::string run_id = simulation->run_id();
  interrupt.Call([&] { simulation->Stop(); });
  const StatusOr<SimulationResult> result = simulation->Run();
  interrupt.Forget();
  progress.Finish();
  simulation.reset();  // closes the history, which is read next
  const Status traced = watching->Finish();
  if (absl::IsCancelled(result.status()) && interrupt.happened()) {
    return InterruptedError("simulate", options.run,
                            options.workers ? fmt::format("--workers {}", *options.workers) : "", run_id);
  }
  RIVULET_RETURN_IF_ERROR(result.status());
  if (result->already_finished) progress.Note(fmt::format("run {} had finished; nothing to do", run_id));
  RIVULET_RETURN_IF_ERROR(PrintResult(options.run.db, run_id, options.json));
  return traced;
}

const RegisterCommand kSimulate(10, [] {
  auto options = std::make_shared<SimulateOptions>();
  Command command{.name = "simulate",
                  .summary = "Run a federation of virtual clients in this process.",
                  .example = "rivulet simulate simulations/scenarios/quickstart.toml --rounds 5 --set client.epochs=2"};
  AddScenarioOptions(command, &options->run);
  command
      .Option("--workers", "N", &options->workers,
              "threads that train clients; the result is the same for any number [one per core]", {1, 1024})
      .Flag("--json", &options->json, "print the result as one JSON object")
      .Option(
          "--replay", "RUN", &options->replay,
          "do the recorded tasks of a run again, by id, name or 'latest', and hold each version against its history");
  AddTraceOptions(command, &options->trace);
  command.run = [options] { return Simulate(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
