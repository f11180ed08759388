// State of a stored run needed to resume it, read before any process owns it.
#pragma once

#include <memory>
#include <string>

#include "coordinator/history/rows.h"
#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// FAILED_PRECONDITION: of a run that History::AddForeignRun has brought in.
Status CheckOurs(const RunRow& run);

// The configuration that the run (its id, its name, or "latest") goes on with when `now` is given, as ScenarioToResume
// says. NOT_FOUND: no such history or run. FAILED_PRECONDITION: a key that may not change names itself.
StatusOr<Scenario> ScenarioOfStoredRun(const std::string& db_path, const std::string& run, const Scenario& now);

// The plan that the run was started with, from the bytes that were kept: what is built from the same scenario today may
// be another. Null of a run whose plan was not kept, as of an older program's. DATA_LOSS: the bytes are damaged.
// FAILED_PRECONDITION: of a format that this program does not read.
StatusOr<std::shared_ptr<const Plan>> PlanOfStoredRun(const std::string& db_path, const std::string& run);

}  // namespace rivulet
