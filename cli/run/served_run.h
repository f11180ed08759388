// One run in a coordinator process: made from its scenario, with its events logged.
#pragma once

#include <memory>
#include <string>

#include "cli/run/log_file.h"
#include "cli/run/progress.h"
#include "coordinator/coordinator.h"
#include "engine/profile/step_monitor.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/server_state/server_training.h"

namespace rivulet {

// As a JSON line on stdout.
void PrintEventRow(const EventRow& event);
// To `progress`, or, with `json`, to stdout. `progress` must outlive the run.
CoordinatorObserver ObserveRun(RoundProgress& progress, bool json);

// Events of `observer` go to the log too; null: to none.
void LogTo(const std::shared_ptr<LogFile>& log, CoordinatorObserver& observer);

struct ServedRunOptions {
  Scenario scenario;
  std::shared_ptr<const Plan> plan;  // built elsewhere; null: from the scenario, or stored by the resumed run
  std::string arrays = {};           // the file of model.arrays, where it came with the plan; "": it is read
  std::string db, resume;
  CoordinatorObserver observer;
  Instruments instruments;
  std::function<std::shared_ptr<const NodeIdentity>()> identity = nullptr;  // CoordinatorOptions'
};
struct ServedRun {
  std::shared_ptr<Evaluator> evaluator;  // these two outlive the coordinator
  std::shared_ptr<ServerTraining> training;
  std::shared_ptr<Coordinator> coordinator;
};
// Makes plan, model, evaluator and what trains on the server's own data, and the coordinator. Clients' training data
// stays with the clients, and the model as it was read is not needed while the run goes on. Errors name the scenario
// where its model is at fault.
StatusOr<ServedRun> MakeServedRun(ServedRunOptions options);

}  // namespace rivulet
