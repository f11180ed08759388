// A plan in a file, and beside it the scenario keys it was built from, with which a coordinator elsewhere starts a run.
// The keys are not part of the plan: clients receive the plan and must not learn a run's seed.
#pragma once

#include <memory>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// Whether files that the scenario names are in its plan, such as model.graph: whoever has them builds it, and whoever
// is given it needs them no more.
bool PlanHoldsFiles(const Scenario& scenario);

// Where the keys of the plan at `path` lie: "<path>.keys.toml".
std::string PlanKeysPath(const std::string& path);

// Writes both, each whole or not at all. `plan` was built from `scenario`.
Status WritePlanFile(FileSystem& fs, const std::string& path, const Plan& plan, const Scenario& scenario);

// Writes `plan`, which is the one at `from` with a signature or without, to `to`, and the keys that lie beside `from`,
// where they do, beside `to`. The two may be one path. DATA_LOSS: the keys there are not the plan's.
Status WriteSignedPlan(FileSystem& fs, const std::string& from, const std::string& to, const Plan& plan);

struct PlanFile {
  std::shared_ptr<const Plan> plan;
  Scenario scenario;
};
// The plan, and what a run is that is started with it when `now` is given (ScenarioOfPlan). NOT_FOUND: one of the files
// is not there. DATA_LOSS: one of them is not as WritePlanFile left it. FAILED_PRECONDITION: `now` contradicts the
// plan. Otherwise as Plan::Open.
StatusOr<PlanFile> ReadPlanFile(FileSystem& fs, const std::string& path, const Scenario& now);

}  // namespace rivulet
