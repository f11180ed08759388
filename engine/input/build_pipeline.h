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

// Programs for the tensor inputs of a graph's dataset ops (a count computed from an argument). Thread-safe.
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

// The pipeline with the handle `dataset`, a variant of `graph`; `arguments` are the values of its "_Arg" nodes.
// INVALID_ARGUMENT: a variant that is not from a dataset op, too many stages; else errors of the stages.
StatusOr<std::shared_ptr<const Pipeline>> BuildPipeline(const std::shared_ptr<const Graph>& graph, Output dataset,
                                                        const std::shared_ptr<const PipelineEnvironment>& environment,
                                                        std::span<const Component> arguments = {},
                                                        TensorPrograms* programs = nullptr,
                                                        const InputBudget* budget = nullptr);

// Makes the stage of `arguments.node`: calls its op's maker, and does the work common to all stages.
StatusOr<std::shared_ptr<const Pipeline>> MakePipeline(const MakePipelineFn& make, PipelineArguments& arguments);

}  // namespace rivulet
