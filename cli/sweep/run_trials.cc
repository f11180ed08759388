#include "cli/sweep/run_trials.h"

#include <utility>

#include "cli/interrupt.h"
#include "cli/run/blame_model.h"
#include "cli/run/prepare_data.h"
#include "cli/run/progress.h"
#include "setup/model.h"

namespace rivulet {
namespace {

struct Planned {
  size_t point;
  Scenario scenario;
  std::string name;  // "2 of 6: client.epochs=5, seed 2"
};

StatusOr<std::vector<Planned>> PlanTrials(const RunTrialsOptions& options) {
  std::vector<Planned> planned;
  const size_t all = options.points.size() * static_cast<size_t>(options.seeds);
  for (size_t point = 0; point < options.points.size(); ++point) {
    ScenarioOptions one = options.scenario;
    for (const auto& [key, value] : options.points[point]) one.sets.push_back(fmt::format("{}={}", key, value));
    for (int64_t i = 0; i < options.seeds; ++i) {
      const uint64_t seed = options.first_seed + static_cast<uint64_t>(i);
      one.seed = static_cast<int64_t>(seed);
      StatusOr<Scenario> scenario = LoadScenario(one);
      const std::string name =
          fmt::format("{} of {}: {}, seed {}", planned.size() + 1, all, PointName(options.points[point]), seed);
      if (!scenario.ok()) return Annotate(scenario.status(), name);
      RIVULET_RETURN_IF_ERROR(AsUsageError(RequireGraph(*scenario)));
      planned.push_back({point, *std::move(scenario), name});
    }
  }
  return planned;
}

std::vector<SweptPoint> WithoutRuns(const std::vector<SweepPoint>& points) {
  std::vector<SweptPoint> swept;
  for (const SweepPoint& point : points) swept.push_back({.point = point, .runs = {}, .last = {}, .best = {}});
  return swept;
}

}  // namespace

// Points with their seeds one after the other: runs that differ in their seed alone share a plan.
StatusOr<std::vector<SweptPoint>> RunTrials(const RunTrialsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Planned> planned, PlanTrials(options));
  for (const Planned& trial : planned) RIVULET_RETURN_IF_ERROR(PrepareDataHere(trial.scenario));
  std::vector<SweptPoint> swept = WithoutRuns(options.points);
  Interrupt interrupt;
  Trials trials(options.trials, planned.front().scenario.run.cache_megabytes * 1'000'000);
  interrupt.Call([&trials] { trials.Stop(); });
  for (const Planned& trial : planned) {
    RoundProgress progress(trial.scenario.run.rounds);
    if (CurrentProgressStyle() == ProgressStyle::kText) progress.Note(trial.name);
    CoordinatorObserver observer;
    progress.Observe(observer);
    const StatusOr<TrialResult> result = trials.Run(trial.scenario, observer);
    progress.Finish();
    if (!result.ok()) {
      interrupt.Forget();
      if (absl::IsCancelled(result.status()) && interrupt.happened()) {
        return Cancelled("interrupted at run {}; the same command goes on, and what is done is not done again",
                         trial.name);
      }
      return Annotate(BlameModel(trial.scenario, result.status()), trial.name);
    }
    if (result->was_done && CurrentProgressStyle() == ProgressStyle::kText) {
      progress.Note(fmt::format("run {} had finished", result->run_id));
    }
    if (!result->status.ok()) progress.Note(fmt::format("it failed: {}", Message(result->status)));
    swept[trial.point].runs.push_back(
        {.run_id = result->run_id, .status = {}, .seed = trial.scenario.run.seed, .curves = {}});
  }
  interrupt.Forget();
  return swept;
}

StatusOr<std::vector<SweptPoint>> GatherTrials(const RunTrialsOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Planned> planned, PlanTrials(options));
  std::vector<SweptPoint> swept = WithoutRuns(options.points);
  Trials trials(options.trials, /*row_bytes=*/0);
  for (const Planned& trial : planned) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow found, trials.Find(trial.scenario));
    if (found.status != "finished" && found.status != "failed") continue;
    swept[trial.point].runs.push_back(
        {.run_id = found.run_id, .status = {}, .seed = trial.scenario.run.seed, .curves = {}});
  }
  return swept;
}

}  // namespace rivulet
