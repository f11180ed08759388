// Evaluator of a committed model on the scenario's test set, with the plan's graph. The coordinator's rounds report the
// results as "test/loss" and "test/<metric>", or under another set's name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/data/dataset.h"
#include "engine/program/program.h"
#include "federated/evaluation/evaluator.h"
#include "federated/plan/decoded_examples.h"
#include "federated/plan/plan.h"
#include "setup/measured_set.h"

namespace rivulet {

class StepMonitor;  // engine/profile/step_monitor.h

struct CentralEvaluatorOptions {
  std::string set = "test";  // the data set's name
  int64_t batch_size = 100;
  int threads = 1;                  // never more than there are batches
  StepMonitor* monitor = nullptr;   // may observe each batch; outlives the evaluator
  std::shared_ptr<RowBudget> rows;  // cache for decoded examples; null: they are decoded each time
};

// Owns threads that wait for the next evaluation, each with its programs and one arena. One Evaluate at a time. Memory:
// threads × (the program's arena and a batch), and cached examples within `rows`; the rest of the test set stays
// memory-mapped and is decoded each time.
class CentralEvaluator : public Evaluator {
 public:
  // INVALID_ARGUMENT: an empty test set, a first record that does not fit the plan, or a metric that is no floating
  // scalar.
  static StatusOr<std::unique_ptr<CentralEvaluator>> Create(std::shared_ptr<const Plan> plan,
                                                            std::shared_ptr<const Dataset> test,
                                                            CentralEvaluatorOptions options = {});
  ~CentralEvaluator() override;

  // Means over the examples. A metric that is the mean of bools (Mean of Cast of a bool, such as accuracy) is a rate,
  // with exact counts. Batches are summed in order, so the result is the same for any number of threads. Errors name
  // file, record and byte.
  StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) override;

 private:
  struct Worker;
  struct Evaluation;
  explicit CentralEvaluator(MeasuredSet evaluated);
  StatusOr<std::shared_ptr<const Program>> Compile(const ExampleDecoder& decoder, int64_t batch_size) const;
  Status Prepare(CentralEvaluatorOptions options);
  void Work(Worker& worker);
  Status EvaluateBatch(Worker& worker, int64_t batch, Evaluation& evaluation) const;

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<DecodedExamples> examples_;
  int64_t batch_size_ = 0;
  StepMonitor* monitor_ = nullptr;
  const MeasuredSet evaluated_;
  std::shared_ptr<const Program> whole_, rest_;  // for a full batch and for the last, smaller one; either may be null
  std::vector<std::unique_ptr<Worker>> workers_;

  Mutex mutex_;
  CondVar begun_, done_;
  Evaluation* evaluation_ GUARDED_BY(mutex_) = nullptr;  // the current one
  int64_t evaluations_ GUARDED_BY(mutex_) = 0;           // begun so far
  size_t working_ GUARDED_BY(mutex_) = 0;                // threads that still work on it
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // one per worker
};

}  // namespace rivulet
