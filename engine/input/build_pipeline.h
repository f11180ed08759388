// Construction of a pipeline from all dataset ops of a graph at once, for functions that return a data set per element
// and for a plan's input graph. In a session dataset ops run one by one instead (dataflow/input/dataset_resource.h).
#pragma once

#include <map>
#include <memory>
#include <span>

#include "engine/base/mutex.h"
#include "engine/input/function_runner.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {

// Programs for the tensors that dataset ops of one graph take (a count computed from an argument). Thread-safe.
class TensorPrograms {
 public:
  StatusOr<Tensor> Evaluate(const std::shared_ptr<const Graph>& graph, Output output,
                            std::span<const Component> arguments, const PipelineEnvironment& environment,
                            const InputBudget* budget);

 private:
  struct Entry {
    std::shared_ptr<FunctionRunner> runner;
    FunctionRunner::State state;
  };
  Mutex mutex_;
  std::map<std::pair<int, int>, Entry> entries_ GUARDED_BY(mutex_);  // by node and port
};

// The pipeline whose handle is `dataset`, a variant of `graph`; the values of its "_Arg" nodes are `arguments`.
// INVALID_ARGUMENT: a variant that no dataset op makes, too many stages; else what the stages say.
StatusOr<std::shared_ptr<const Pipeline>> BuildPipeline(const std::shared_ptr<const Graph>& graph, Output dataset,
                                                        const std::shared_ptr<const PipelineEnvironment>& environment,
                                                        std::span<const Component> arguments = {},
                                                        TensorPrograms* programs = nullptr,
                                                        const InputBudget* budget = nullptr);

// Makes the stage of `arguments.node`: the maker of its op, and what holds of all stages.
StatusOr<std::shared_ptr<const Pipeline>> MakePipeline(const MakePipelineFn& make, PipelineArguments& arguments);

}  // namespace rivulet
