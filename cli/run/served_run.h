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

// Prints it as a JSON line on stdout.
void PrintEventRow(const EventRow& event);
// Prints to `progress` or, with `json`, to stdout. `progress` must outlive the run.
CoordinatorObserver ObserveRun(RoundProgress& progress, bool json);

// Sends events of `observer` to the log too; null: there is none.
void LogTo(const std::shared_ptr<LogFile>& log, CoordinatorObserver& observer);

struct ServedRunOptions {
  Scenario scenario;
  std::shared_ptr<const Plan> plan;  // built elsewhere; null: from the scenario, or stored by the resumed run
  std::string arrays = {};           // the file of model.arrays, if it came with the plan; "": it is read
  std::string db, resume;
  CoordinatorObserver observer;
  Instruments instruments;
  std::function<std::shared_ptr<const NodeIdentity>()> identity = nullptr;  // CoordinatorOptions'
};
struct ServedRun {
  std::shared_ptr<Evaluator> evaluator;  // both outlive the coordinator
  std::shared_ptr<ServerTraining> training;
  std::shared_ptr<Coordinator> coordinator;
};
// Makes plan, model, evaluator, the training on the server's own data, and the coordinator. Clients' training
// data stay with the clients, and the original model is freed. Errors name the scenario if its model is at
// fault.
StatusOr<ServedRun> MakeServedRun(ServedRunOptions options);

}  // namespace rivulet
