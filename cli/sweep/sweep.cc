// rivulet sweep: a scenario with several settings and seeds, in one process and one history.
#include <memory>

#include "cli/command.h"
#include "cli/run/options.h"
#include "cli/run/python_aggregation.h"
#include "cli/sweep/run_trials.h"
#include "cli/terminal.h"
#include "simulations/sweeps/outcome.h"

namespace rivulet {
namespace {

struct SweepOptions {
  ScenarioOptions scenario;
  AggregateOptions aggregate;
  SweepAxes axes;
  std::optional<int64_t> seeds, draws, workers;
  std::string tag, best, plot;
  bool json = false;
};

// Adds a point's keys and a seed to the options.
ScenarioOfTrial TrialsOf(const ScenarioOptions& options, const AggregateOptions& aggregate) {
  return [options, aggregate](const SweepPoint& point, uint64_t seed) {
    ScenarioOptions one = options;
    for (const auto& [key, value] : point) one.sets.push_back(fmt::format("{}={}", key, value));
    one.seed = static_cast<int64_t>(seed);
    return LoadScenario(one, aggregate);
  };
}

Status Sweep(SweepOptions options) {
  if (!options.plot.empty()) {
    if (const Status name = CheckPictureName(options.plot); !name.ok()) return AsUsageError(Annotate(name, "--plot"));
  }
  RIVULET_ASSIGN_OR_RETURN(const Scenario scenario, LoadScenario(options.scenario, options.aggregate));
  options.axes.draws = options.draws.value_or(0);
  options.axes.seed = scenario.run.seed;
  StatusOr<std::vector<SweepPoint>> points = PointsOf(options.axes);
  if (!points.ok()) return AsUsageError(points.status());
  const std::string tag = options.tag.empty() ? "sweep-" + scenario.run.name : options.tag;
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<PythonAggregation> aggregation,
                           PythonAggregation::Start(options.aggregate));
  UseExternalAggregation(aggregation);
  const auto on_run = [&](const std::string& run_id) {
    if (aggregation != nullptr) aggregation->BeginRun(options.scenario.db, run_id);
  };
  RIVULET_ASSIGN_OR_RETURN(std::vector<SweptPoint> swept,
                           RunTrialsHere({.scenario = TrialsOf(options.scenario, options.aggregate),
                                          .points = *std::move(points),
                                          .first_seed = scenario.run.seed,
                                          .seeds = options.seeds.value_or(1),
                                          .trials = {.db_path = options.scenario.db,
                                                     .tag = tag,
                                                     .workers = static_cast<int>(options.workers.value_or(0)),
                                                     .on_run = on_run}}));
  RIVULET_ASSIGN_OR_RETURN(SweepOutcome outcome, JudgeSweep(options.scenario.db, std::move(swept), options.best));
  outcome.name = scenario.run.name;
  outcome.tag = tag;
  if (!options.plot.empty()) RIVULET_RETURN_IF_ERROR(WritePicture(ChartPicture(SweepChart(outcome)), options.plot));
  if (options.json) {
    fmt::print("{}\n", SweepJson(outcome));
    return absl::OkStatus();
  }
  fmt::print("{}\n{}", outcome.metric, SweepTable(outcome, ResultColumns()));
  if (outcome.best) {
    const SweptPoint& best = outcome.points[*outcome.best];
    fmt::print("\nbest     {}, {} {} at the end\n", PointName(best.point), outcome.metric, best.last.Text());
  }
  fmt::print("history  {}, tag {}\n", options.scenario.db, tag);
  return absl::OkStatus();
}

const RegisterCommand kSweep(11, [] {
  auto options = std::make_shared<SweepOptions>();
  Command command{
      .name = "sweep",
      .summary = "Run a scenario with several settings and seeds, and rank the settings.",
      .example =
          "rivulet sweep quickstart --rounds 2 --grid client.optimizer.learning_rate=0.05,0.1 --seeds 2\n"
          "  rivulet sweep quickstart --rounds 2 --random client.optimizer.learning_rate=log:0.01:0.3 --draws 3\n"
          "  rivulet sweep quickstart --rounds 2 --list algorithm.name=fedavg,fedadam --list "
          "server.learning_rate=1,0.01 --plot sweep.svg"};
  AddScenarioSettings(command, &options->scenario);
  AddAggregateOptions(command, &options->aggregate);
  command
      .Repeated("--grid", "KEY=VALUES", &options->axes.grids,
                "try each of these values, separated by commas, with each of the other axes; repeatable")
      .Repeated("--list", "KEY=VALUES", &options->axes.lists,
                "combine the n-th value with the n-th of every other --list; repeatable")
      .Repeated("--random", "KEY=LOW:HIGH", &options->axes.randoms,
                "draw values between these, or evenly by magnitude: KEY=log:LOW:HIGH; repeatable")
      .Option("--draws", "N", &options->draws, "number of draws of all --random together; --seed decides them",
              {1, 10'000})
      .Option("--seeds", "N", &options->seeds, "runs of each setting, with consecutive seeds [1]", {1, 1000})
      .Option("--best", "METRIC", &options->best,
              "metric that ranks the settings, such as test/loss [validation metrics if present, else test/accuracy or "
              "a similar one]")
      .Option("--plot", "FILE", &options->plot, "draw the metric's mean curve for each setting: .svg or .png")
      .Option("--tag", "TAG", &options->tag, "tag of every run in the history [sweep-NAME]")
      .Option("--workers", "N", &options->workers, "threads that train clients [one per core]", {1, 1024})
      .Flag("--json", &options->json, "print the outcome as one JSON object");
  command.run = [options] { return Sweep(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
