#include "cli/sweep/run_trials.h"

#include <utility>

#include "cli/interrupt.h"
#include "cli/run/prepare_data.h"
#include "cli/run/progress.h"
#include "setup/blame_model.h"

namespace rivulet {

StatusOr<std::vector<SweptPoint>> RunTrialsHere(const SweepPlan& plan) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<PlannedTrial> planned, PlanTrials(plan));
  for (const PlannedTrial& trial : planned) RIVULET_RETURN_IF_ERROR(PrepareDataHere(trial.scenario));
  std::vector<SweptPoint> swept = WithoutRuns(plan.points);
  Interrupt interrupt;
  Trials trials(plan.trials, planned.front().scenario.run.cache_megabytes * 1'000'000);
  interrupt.Call([&trials] { trials.Stop(); });
  for (const PlannedTrial& trial : planned) {
    RoundProgress progress(trial.scenario.run.rounds);
    if (CurrentProgressStyle() == ProgressStyle::kText) progress.Note(trial.name);
    CoordinatorObserver observer;
    progress.Observe(observer);
    const StatusOr<TrialResult> result = trials.Run(trial.scenario, observer);
    progress.Finish();
    if (!result.ok()) {
      interrupt.Forget();
      if (absl::IsCancelled(result.status()) && interrupt.happened()) {
        return Cancelled("interrupted at run {}; the same command resumes without repeating finished runs", trial.name);
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

}  // namespace rivulet
