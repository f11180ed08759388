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

// Whether there is a test or validation set on which versions can be measured.
bool MeasuresAnything(const DataConfig& data);

struct RunSetupOptions {
  int evaluation_threads = 0;        // 0: one per core; at most that, since more would only cost arenas
  std::shared_ptr<const Plan> plan;  // the stored plan of a resumed run; null: built from the scenario
  std::string arrays = {};           // the file of model.arrays, if it came with the plan; "": it is read
  StepMonitor* monitor = nullptr;    // may observe each batch of an evaluation; outlives the evaluator
  // Evaluates versions there, unless it lacks a kernel or memory for that; null: on the host.
  std::shared_ptr<GpuDevice> device = nullptr;
  // State shared by successive runs of this process with the same device and threads; null: none is shared.
  std::shared_ptr<SharedParts> shared = nullptr;
};

// Each part is made once, at the first request, with the parts that it needs; later requests get the same object. So a
// command neither pays for an unused part nor fails because of it. An error belongs to the requested part; the next
// request tries again. Parts may outlive the setup. Not thread-safe.
class RunSetup {
 public:
  explicit RunSetup(Scenario scenario, RunSetupOptions options = {});
  const Scenario& scenario() const { return scenario_; }
  // Lowers server.clients_per_round to the number of clients that data.partition finds, unless it was given. Call it
  // before plan(), which depends on it. Errors as shares.
  Status FitCohort();
  // The budget run.cache_megabytes, or that of the shared parts, for examples decoded by the run's parts.
  const std::shared_ptr<RowBudget>& row_budget() const { return row_budget_; }

  // The training set without validation examples, as its clients see it (setup/feature_shift.h). A missing set is
  // generated first if the scenario describes it (setup/data.h). NOT_FOUND: no such file. If inputs are shifted, also
  // the errors of shares and model.
  StatusOr<std::shared_ptr<const Dataset>> training_data();
  // The assignment of its examples to clients. Errors as Partition.
  StatusOr<std::shared_ptr<const Shares>> shares();
  // Errors as ModelOf.
  StatusOr<std::shared_ptr<const ModelDef>> model();
  // The plan that every client runs, opened: the options' plan if given. A plan with a graph on top of a base model is
  // bound to it (Plan::BindBase). INVALID_ARGUMENT: a model, or settings, that give no plan. Errors also as base().
  StatusOr<std::shared_ptr<const Plan>> plan();
  // The initial model of a new run whose plan has no graph to make it: the values of model.arrays; null for all other
  // plans. FAILED_PRECONDITION: the plan was built from other values.
  StatusOr<std::shared_ptr<const Model>> initial_model();
  // The scenario's model.base, opened and compared with the plan's; null if the plan names none. Errors as Base::Open.
  // FAILED_PRECONDITION: it is another base, or the scenario names none.
  StatusOr<std::shared_ptr<const Base>> base();
  // For the scenario's test sets and its validation set; null if the scenario evaluates nothing, or its model has no
  // graph. Needs no training data unless validation examples are held out of it. Errors as CentralEvaluator::Create.
  StatusOr<std::shared_ptr<Evaluator>> evaluator();

 private:
  // The scenario with the number of clients that data.partition finds, if its algorithm reads that and it was not
  // given. Errors as shares.
  StatusOr<Scenario> Counted();
  StatusOr<std::shared_ptr<const Dataset>> Open(const std::string& path);
  // As recorded: the assignment to clients does not depend on shifts.
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
  bool bound_ = false;  // plan_ is bound to its base
  std::shared_ptr<Evaluator> evaluator_;
};

}  // namespace rivulet
