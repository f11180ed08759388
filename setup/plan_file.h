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

// Whether the plan contains files that the scenario names, such as model.graph: they are needed to build the plan, but
// not to use it.
bool PlanHoldsFiles(const Scenario& scenario);

// The path of the keys for the plan at `path`: "<path>.keys.toml".
std::string PlanKeysPath(const std::string& path);

// Writes both, each completely or not at all. `plan` was built from `scenario`.
Status WritePlanFile(FileSystem& fs, const std::string& path, const Plan& plan, const Scenario& scenario);

// Writes `plan`, which is the one at `from` with or without a signature, to `to`, and any keys beside `from` beside
// `to`. The two may be one path. DATA_LOSS: the keys there are not the plan's.
Status WriteSignedPlan(FileSystem& fs, const std::string& from, const std::string& to, const Plan& plan);

struct PlanFile {
  std::shared_ptr<const Plan> plan;
  Scenario scenario;
};
// The plan, and the scenario of a run that is started with it when `now` is given (ScenarioOfPlan). NOT_FOUND: one of
// the files is missing. DATA_LOSS: one of them was changed since WritePlanFile. FAILED_PRECONDITION: `now` contradicts
// the plan. Other errors as Plan::Open.
StatusOr<PlanFile> ReadPlanFile(FileSystem& fs, const std::string& path, const Scenario& now);

}  // namespace rivulet
