#include "simulations/sweeps/planned_trials.h"

#include <utility>

#include "engine/base/usage_error.h"
#include "setup/model.h"

namespace rivulet {

StatusOr<std::vector<PlannedTrial>> PlanTrials(const SweepPlan& plan) {
  std::vector<PlannedTrial> planned;
  const size_t all = plan.points.size() * static_cast<size_t>(plan.seeds);
  for (size_t point = 0; point < plan.points.size(); ++point) {
    for (int64_t i = 0; i < plan.seeds; ++i) {
      const uint64_t seed = plan.first_seed + static_cast<uint64_t>(i);
      StatusOr<Scenario> scenario = plan.scenario(plan.points[point], seed);
      const std::string name =
          fmt::format("{} of {}: {}, seed {}", planned.size() + 1, all, PointName(plan.points[point]), seed);
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

StatusOr<std::vector<SweptPoint>> GatherTrials(const SweepPlan& plan) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<PlannedTrial> planned, PlanTrials(plan));
  std::vector<SweptPoint> swept = WithoutRuns(plan.points);
  Trials trials(plan.trials, /*row_bytes=*/0);
  for (const PlannedTrial& trial : planned) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow found, trials.Find(trial.scenario));
    if (found.status != "finished" && found.status != "failed") continue;
    swept[trial.point].runs.push_back(
        {.run_id = found.run_id, .status = {}, .seed = trial.scenario.run.seed, .curves = {}});
  }
  return swept;
}

}  // namespace rivulet
