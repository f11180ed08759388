#include "coordinator/stored_run.h"

#include "coordinator/history/history.h"
#include "coordinator/model_store/model_store.h"

namespace rivulet {

Status CheckOurs(const RunRow& run) {
  if (!run.foreign()) return absl::OkStatus();
  return FailedPrecondition(
      "run '{}' is of another program, and its event files have only numbers; only runs of Rivulet can be repeated or "
      "resumed",
      run.run_id);
}

StatusOr<Scenario> ScenarioOfStoredRun(const std::string& db_path, const std::string& run, const Scenario& now) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db_path, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow row, history->ResolveRun(run));
  RIVULET_RETURN_IF_ERROR(CheckOurs(row));
  StatusOr<Scenario> scenario =
      ScenarioToResume(row.config, fmt::format("the stored configuration of run {}", row.run_id), now);
  if (scenario.ok()) return scenario;
  return FailedPrecondition("run '{}' cannot be resumed so: {}", row.run_id, Message(scenario.status()));
}

StatusOr<std::shared_ptr<const Plan>> PlanOfStoredRun(const std::string& db_path, const std::string& run) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db_path, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow row, history->ResolveRun(run));
  RIVULET_ASSIGN_OR_RETURN(
      std::optional<std::string> bytes,
      ModelStore::ReadPlan(FileSystem::Default(), history->real_path(), row.run_id, row.plan_digest));
  if (!bytes) return nullptr;
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(*std::move(bytes));
  if (plan.ok()) return plan;
  return FailedPrecondition(
      "the plan of run '{}' cannot be opened: {}; resume it with the program that started it ({})", row.run_id,
      Message(plan.status()), row.version);
}

}  // namespace rivulet
