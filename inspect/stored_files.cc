#include "inspect/stored_files.h"

#include <utility>

#include "coordinator/history/history.h"
#include "coordinator/stored_run.h"
#include "engine/base/file_system.h"
#include "federated/server_state/server_state.h"
#include "inspect/run_model.h"
#include "setup/run_setup.h"

namespace rivulet {

StatusOr<StoredFiles> CheckStoredFiles(const std::string& db, const std::string& run_id, const Scenario& scenario,
                                       int64_t first, int64_t last) {
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> kept, PlanOfStoredRun(db, run_id));
  RunSetup setup(scenario, {.plan = std::move(kept)});
  RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
  StoredFiles files;
  RIVULET_ASSIGN_OR_RETURN(const auto base, setup.base());
  if (base != nullptr) files.base = base->digest();
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ModelRow> models, history->Models(run_id));
  for (const ModelRow& model : models) {
    if (model.path.empty() || model.round < first || model.round > last) continue;
    RIVULET_ASSIGN_OR_RETURN(const RunModel file, FindRunModel(db, fmt::format("{}:{}", run_id, model.round)));
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(file.path));
    const StatusOr<ServerState> state = ReadServerState(plan->layout(), bytes);
    if (!state.ok()) return Annotate(state.status(), file.path);
    if (state->digest.Hex() != model.digest) {
      return DataLoss("{}: the history has digest {} for round {}, and the file has {}; restore it from a copy",
                      file.path, model.digest, model.round, state->digest.Hex());
    }
    ++files.versions;
    files.model_digest = model.digest;
  }
  if (files.versions == 0) return FailedPrecondition("run {} keeps no version of these rounds", run_id);
  return files;
}

}  // namespace rivulet
