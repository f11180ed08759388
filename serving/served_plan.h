// A run's plan for serving: the inputs and outputs of its inference graph, and a compiled program for each batch size.
// Versions of one plan share it, so that a switch between them compiles nothing.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/program/program.h"
#include "federated/plan/plan.h"

namespace rivulet {

// A feature of the run's examples that the outputs need.
struct ServedInput {
  std::string name;  // the placeholder's
  FeatureEncoding encoding = FeatureEncoding::kFloat;
  TensorSpec row;  // of one example, as fed to the program: float32 or int64
  double scale = 1;
  int64_t upper_bound = 0;  // of int64: values are 0 .. upper_bound - 1; 0: any
};

struct ServedOutput {
  std::string name;
  TensorSpec row;  // of one example
};

struct ServedPlanOptions {
  // Tensors or nodes of the graph, by name; empty: the result of `scores`. "probabilities": the softmax of the scores.
  std::vector<std::string> outputs;
  // Finds the tensor with a model's scores; "": none is known.
  std::string (*scores)(const ModelDef& model) = nullptr;
};

inline constexpr char kProbabilities[] = "probabilities";

// Plan with compiled programs. Thread-safe.
class ServedPlan {
 public:
  // FAILED_PRECONDITION: the plan has no graph, its model has personal variables, or no output is known. NOT_FOUND: no
  // such output (names the nearest). INVALID_ARGUMENT: an output whose first dimension is not the batch.
  static StatusOr<std::shared_ptr<const ServedPlan>> Create(std::shared_ptr<const Plan> plan,
                                                            const ServedPlanOptions& options);

  const Plan& plan() const { return *plan_; }
  std::span<const ServedInput> inputs() const { return inputs_; }
  std::span<const ServedOutput> outputs() const { return outputs_; }
  int64_t row_bytes() const { return row_bytes_; }  // of all inputs of one example
  // The most numbers, brackets and names in the JSON of one example with all inputs.
  int64_t row_json_values() const;

  // Compiled at the first call, on a thread that has called EnterWorkerThread. Feeds are in order of inputs(), fetches
  // in order of fetches().
  StatusOr<std::shared_ptr<const Program>> ProgramOf(int64_t batch) const;
  // The fetch of output `index`, and whether the output is its softmax.
  struct Source {
    size_t fetch = 0;
    bool softmax = false;
  };
  std::span<const Source> sources() const { return sources_; }

  // The time of a step of `batch`, by those reported to TellStep; zero: none was.
  std::chrono::nanoseconds StepTime(int64_t batch) const;
  void TellStep(int64_t batch, std::chrono::nanoseconds took) const;

 private:
  ServedPlan() = default;
  Status FindOutputs(const ServedPlanOptions& options);
  Status FindInputs();

  std::shared_ptr<const Plan> plan_;
  std::vector<ServedInput> inputs_;
  std::vector<FeedSpec> feeds_;  // with a batch of 1
  std::vector<ServedOutput> outputs_;
  std::vector<Source> sources_;
  std::vector<std::string> fetches_;
  int64_t row_bytes_ = 0;
  mutable Mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const Program>> programs_ GUARDED_BY(mutex_);
  mutable std::map<int64_t, std::chrono::nanoseconds> steps_ GUARDED_BY(mutex_);
};

// Replaces each of `rows` consecutive rows of scores by its softmax.
void SoftmaxRows(std::span<float> scores, int64_t rows);

}  // namespace rivulet
