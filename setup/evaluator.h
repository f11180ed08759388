// Evaluates a committed model on the scenario's test set, with the plan's own graph: what the coordinator's rounds
// report as "test/loss" and "test/<metric>".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/program/program.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/example_source.h"
#include "federated/plan/plan.h"

namespace rivulet {

class StepMonitor;  // engine/profile/step_monitor.h

// Holds one instance and one arena per thread. One Evaluate at a time. Memory: threads × (the program's arena at the
// batch size); the test set stays memory-mapped and is decoded anew each time.
class CentralEvaluator : public Evaluator {
 public:
  // INVALID_ARGUMENT: an empty test set, a first record that is not what the plan wants, or a metric that is no
  // floating scalar.
  static StatusOr<std::unique_ptr<CentralEvaluator>> Create(std::shared_ptr<const Plan> plan,
                                                            std::shared_ptr<const Dataset> test, int64_t batch_size,
                                                            int threads, StepMonitor* monitor = nullptr);
  ~CentralEvaluator() override;

  // Means over the examples. Batches are summed in their order, so that the result is the same for any number of
  // threads. Errors name file, record and byte.
  StatusOr<std::map<std::string, double>> Evaluate(const Model& model) override;

 private:
  struct Worker;
  CentralEvaluator() = default;

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<DatasetExamples> examples_;
  int64_t batch_size_ = 0;
  StepMonitor* monitor_ = nullptr;               // may watch each batch
  std::vector<std::string> names_;               // "test/loss", "test/accuracy", …: in order of the fetches
  std::shared_ptr<const Program> whole_, rest_;  // of a full batch and of the last, smaller one; either may be null
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace rivulet
