// MapDataset: a function of each element. FilterDataset: elements for which a function returns true.
#include "engine/input/function_runner.h"
#include "engine/input/pipeline_registry.h"

namespace rivulet {
namespace {

class MapPipeline : public Pipeline {
 public:
  MapPipeline(std::string where, std::vector<TensorSpec> specs, std::shared_ptr<const Pipeline> input,
              std::shared_ptr<const FunctionRunner> function, std::vector<Tensor> captured, bool filter)
      : Pipeline(std::move(where), std::move(specs)),
        input_(std::move(input)),
        function_(std::move(function)),
        captured_(std::move(captured)),
        filter_(filter) {}

  StatusOr<std::unique_ptr<PipelineIterator>> MakeIterator(const IteratorContext& context) const override {
    RIVULET_ASSIGN_OR_RETURN(auto input, input_->MakeIterator(context));
    return std::make_unique<Iterator>(*this, context, std::move(input));
  }

 private:
  class Iterator : public IteratorOf<MapPipeline> {
   public:
    Iterator(const MapPipeline& pipeline, const IteratorContext& context, std::unique_ptr<PipelineIterator> input)
        : IteratorOf(pipeline, context), input_(std::move(input)) {
      // Each iteration draws separate random numbers.
      iteration_ = pipeline.iterations_.fetch_add(1);
    }

   private:
    StatusOr<bool> DoNext(const CancellationToken& cancel, Element& element) override {
      for (;;) {
        Element next;
        RIVULET_ASSIGN_OR_RETURN(const bool more, input_->Next(cancel, next));
        if (!more) return false;
        RIVULET_ASSIGN_OR_RETURN(const auto components, next.Components());
        std::vector<Component> arguments(components.begin(), components.end());
        for (const Tensor& captured : pipeline().captured_) arguments.emplace_back(captured);
        RIVULET_ASSIGN_OR_RETURN(
            std::vector<Component> results,
            pipeline().function_->Run(arguments, {iteration_, step_++}, context().budget.get(), cancel, state_));
        if (!pipeline().filter_) {
          RIVULET_RETURN_IF_ERROR(CheckComponents(results, pipeline().specs(), where(), "the function gives"));
          element = Element(std::move(results));
          return true;
        }
        if (results.size() != 1 || results[0].dtype() != DType::kBool || results[0].shape() != Shape{})
          return InvalidArgument("{}: the predicate must give one bool scalar", where());
        if (!results[0].tensor().flat<bool>()[0]) continue;
        element = std::move(next);
        return true;
      }
    }
    const std::unique_ptr<PipelineIterator> input_;
    FunctionRunner::State state_;
    uint32_t iteration_ = 0;
    uint64_t step_ = 0;
  };

  const std::shared_ptr<const Pipeline> input_;
  const std::shared_ptr<const FunctionRunner> function_;
  const std::vector<Tensor> captured_;
  const bool filter_;
  mutable std::atomic<uint32_t> iterations_{0};
};

StatusOr<std::shared_ptr<Pipeline>> MakeStage(PipelineArguments& arguments, std::string_view attr) {
  const bool filter = attr == "predicate";
  RIVULET_ASSIGN_OR_RETURN(const auto function, arguments.FunctionOf(attr));
  std::vector<TensorSpec> given = arguments.datasets[0]->specs();
  for (const Tensor& captured : arguments.tensors) given.push_back({captured.dtype(), captured.shape()});
  bool fits = given.size() == function->arguments.size();
  for (size_t i = 0; fits && i < given.size(); ++i) fits = given[i].dtype == function->argument_dtype(i);
  if (!fits) {
    std::vector<TensorSpec> wanted;
    for (const Node* argument : function->arguments) wanted.push_back(argument->outputs()[0]);
    return InvalidArgument("{}: the function '{}' takes {}, and is given {}", arguments.where(), function->name,
                           Describe(wanted), Describe(given));
  }
  std::vector<TensorSpec> computed;
  for (const Output& result : function->results) computed.push_back({result.dtype(), result.shape()});
  if (filter && (computed.size() != 1 || computed[0].dtype != DType::kBool))
    return InvalidArgument("{}: the predicate '{}' gives {}, and must give one bool", arguments.where(), function->name,
                           Describe(computed));
  if (filter) computed = arguments.datasets[0]->specs();
  RIVULET_ASSIGN_OR_RETURN(auto specs, arguments.Check(computed));
  auto runner =
      FunctionRunner::Of(*function, arguments.environment->compile, arguments.NextStream(), arguments.where());
  return std::make_shared<MapPipeline>(arguments.where(), std::move(specs), arguments.datasets[0], std::move(runner),
                                       std::move(arguments.tensors), filter);
}

StatusOr<std::shared_ptr<Pipeline>> MakeMap(PipelineArguments& arguments) { return MakeStage(arguments, "f"); }

// Calls are sequential: the order, and so every bit, is the same for any requested parallelism.
StatusOr<std::shared_ptr<Pipeline>> MakeParallelMap(PipelineArguments& arguments) {
  RIVULET_RETURN_IF_ERROR(arguments.Integer(arguments.tensors.size() - 1, "num_parallel_calls").status());
  arguments.tensors.pop_back();
  return MakeStage(arguments, "f");
}

StatusOr<std::shared_ptr<Pipeline>> MakeFilter(PipelineArguments& arguments) {
  return MakeStage(arguments, "predicate");
}

RIVULET_DATASET_OP("MapDataset", MakeMap);
RIVULET_DATASET_OP("ParallelMapDatasetV2", MakeParallelMap);
RIVULET_DATASET_OP("FilterDataset", MakeFilter);

}  // namespace
}  // namespace rivulet
