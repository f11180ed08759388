// State of a stored run needed to resume it, read before any process owns it.
#pragma once

#include <memory>
#include <string>

#include "coordinator/history/rows.h"
#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// FAILED_PRECONDITION: History::AddForeignRun imported this run.
Status CheckOurs(const RunRow& run);

// The configuration with which the run (its id, its name, or "latest") resumes when `now` is given, as in
// ScenarioToResume. NOT_FOUND: no such history or run. FAILED_PRECONDITION names a key that may not change.
StatusOr<Scenario> ScenarioOfStoredRun(const std::string& db_path, const std::string& run, const Scenario& now);

// The run's original plan, from its stored bytes: the same scenario may build another plan today. Null if the run
// stored none, as older programs did. DATA_LOSS: the bytes are damaged. FAILED_PRECONDITION: this program does not read
// their format.
StatusOr<std::shared_ptr<const Plan>> PlanOfStoredRun(const std::string& db_path, const std::string& run);

}  // namespace rivulet
