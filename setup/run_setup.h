// Parts of a run made from its scenario: data, shares, model, plan and evaluator. A simulation takes all of it. A
// deployed coordinator takes plan and evaluator (training data stays with the clients). `rivulet data partition` takes
// the shares, `rivulet graph` and `rivulet debug` the plan.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/models/model_def.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/decoded_examples.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/base.h"
#include "setup/partitioners/shares.h"
#include "setup/shared_parts.h"

namespace rivulet {

class GpuDevice;    // engine/gpu/gpu_device.h
class StepMonitor;  // engine/profile/step_monitor.h

// Whether there is a set, for tests or validation, that versions can be measured on.
bool MeasuresAnything(const DataConfig& data);

struct RunSetupOptions {
  int evaluation_threads = 0;        // 0: one per core; more than cores would only hold more arenas, and are not made
  std::shared_ptr<const Plan> plan;  // of a run that goes on with what it keeps; null: built from the scenario
  std::string arrays = {};           // the file of model.arrays, where it came with the plan; "": it is read
  StepMonitor* monitor = nullptr;    // may watch each batch of an evaluation; outlives the evaluator
  // Where versions are evaluated, unless it lacks a kernel or memory for that; null: on the host.
  std::shared_ptr<GpuDevice> device = nullptr;
  // Of runs of this process one after the other, with the same device and threads; null: this one shares nothing.
  std::shared_ptr<SharedParts> shared = nullptr;
};

// Each part is made when it is first asked for, with the parts that it needs, and once: whoever asks again gets the
// same object. So a command neither pays nor is refused for a part that it does not use. An error is that of the part
// that was asked for; asking again tries again. Parts may outlive the setup. Not thread-safe.
class RunSetup {
 public:
  explicit RunSetup(Scenario scenario, RunSetupOptions options = {});
  const Scenario& scenario() const { return scenario_; }
  // Lowers server.clients_per_round to the number of clients that data.partition finds, unless it was given. Call it
  // before plan(), which depends on it. Errors as shares.
  Status FitCohort();
  // run.cache_megabytes, or that of the shared parts, for the examples that whoever makes a part of the run decodes.
  const std::shared_ptr<RowBudget>& row_budget() const { return row_budget_; }

  // The training set without what is held out of it for validation, generated first where the scenario describes it and
  // it is not there (setup/data.h), and as its clients see it (setup/feature_shift.h). NOT_FOUND: no such file. Errors
  // of shares and model besides where inputs are shifted.
  StatusOr<std::shared_ptr<const Dataset>> training_data();
  // Which client holds which of its examples. Errors as Partition.
  StatusOr<std::shared_ptr<const Shares>> shares();
  // Errors as ModelOf.
  StatusOr<std::shared_ptr<const ModelDef>> model();
  // What every client runs, opened: the options' plan where there is one. A plan with a graph on top of a base model is
  // bound to it (Plan::BindBase). INVALID_ARGUMENT: a model, or settings, that make no plan. Errors also as base().
  StatusOr<std::shared_ptr<const Plan>> plan();
  // What a new run begins with where its plan has no graph to make it: the values of model.arrays; null for all other
  // plans. FAILED_PRECONDITION: the plan was built from other values.
  StatusOr<std::shared_ptr<const Model>> initial_model();
  // The scenario's model.base, opened and compared with the plan's; null where the plan names none. Errors as
  // Base::Open. FAILED_PRECONDITION: it is another base, or the scenario names none.
  StatusOr<std::shared_ptr<const Base>> base();
  // Of the scenario's test sets and its validation set; null where the scenario evaluates nothing, or its model has no
  // graph. Asks for no training data, unless some are held out of it. Errors as CentralEvaluator::Create.
  StatusOr<std::shared_ptr<Evaluator>> evaluator();

 private:
  // The scenario with the number of clients that data.partition finds, where its algorithm reads that and nobody gave
  // it. Errors as shares.
  StatusOr<Scenario> Counted();
  StatusOr<std::shared_ptr<const Dataset>> Open(const std::string& path);
  // As it was recorded: who holds what does not depend on how it is seen.
  StatusOr<std::shared_ptr<const Dataset>> RecordedData();
  StatusOr<std::shared_ptr<const Shares>> MakeShares();
  StatusOr<std::shared_ptr<Evaluator>> MakeEvaluator(const std::shared_ptr<const Plan>& plan);
  StatusOr<std::shared_ptr<Evaluator>> EvaluatorOf(const std::shared_ptr<const Plan>& plan, const std::string& set,
                                                   const std::shared_ptr<const Dataset>& data);

  Scenario scenario_;
  const RunSetupOptions options_;
  const std::shared_ptr<RowBudget> row_budget_;
  std::shared_ptr<const Dataset> recorded_, training_data_, held_out_;
  std::shared_ptr<const Shares> shares_;
  std::shared_ptr<const Base> base_;
  std::shared_ptr<const ModelDef> model_;
  std::shared_ptr<const Plan> plan_;
  bool bound_ = false;  // plan_ to its base
  std::shared_ptr<Evaluator> evaluator_;
};

}  // namespace rivulet
