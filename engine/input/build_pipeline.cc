#include "engine/input/build_pipeline.h"

#include "engine/graph/function.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// Limit of stages that an element passes, with shared inputs counted repeatedly. It limits the number of iterators of a
// graph, and the depth of their calls.
constexpr int64_t kMostStages = 500;

class Builder {
 public:
  Builder(const std::shared_ptr<const Graph>& graph, const std::shared_ptr<const PipelineEnvironment>& environment,
          std::span<const Component> arguments, TensorPrograms& programs, const InputBudget* budget)
      : graph_(graph), environment_(environment), arguments_(arguments), programs_(programs), budget_(budget) {}

  // A data set used twice is one pipeline with two iterators, so its random stages draw the same for both.
  StatusOr<std::shared_ptr<const Pipeline>> Build(Output dataset, int depth) {
    const Node& node = *dataset.node;
    if (node.type() == "Identity" && depth < kMostStages) return Build(node.input(0), depth + 1);
    const MakePipelineFn* make = PipelineRegistry::Global().Find(node.type());
    if (make == nullptr)
      return InvalidArgument("{} is no dataset op; an input graph is made of dataset ops", DescribeNode(node));
    if (depth >= kMostStages) return InvalidArgument("{}: more than {} stages", DescribeNode(node), kMostStages);
    if (const auto made = made_.find(&node); made != made_.end()) return made->second;
    PipelineArguments stage{node, *graph_, {}, {}, environment_, &random_stages_};
    for (const Output& input : node.inputs()) {
      if (input.dtype() == DType::kVariant) {
        RIVULET_ASSIGN_OR_RETURN(stage.datasets.emplace_back(), Build(input, depth + 1));
      } else {
        StatusOr<Tensor> value = programs_.Evaluate(graph_, input, arguments_, *environment_, budget_);
        if (!value.ok()) return Annotate(value.status(), DescribeNode(node));
        stage.tensors.push_back(*std::move(value));
      }
    }
    RIVULET_ASSIGN_OR_RETURN(auto pipeline, MakePipeline(*make, stage));
    made_.emplace(&node, pipeline);
    return pipeline;
  }

 private:
  const std::shared_ptr<const Graph>& graph_;
  const std::shared_ptr<const PipelineEnvironment>& environment_;
  const std::span<const Component> arguments_;
  TensorPrograms& programs_;
  const InputBudget* const budget_;
  int random_stages_ = 0;
  std::map<const Node*, std::shared_ptr<const Pipeline>> made_;
};

}  // namespace

// Sizes, seeds and counts of a pipeline are tensors that may be computed
// from a function's arguments. Each becomes a program, once per tensor,
// so an interleave that opens a thousand data sets compiles only once.
StatusOr<Tensor> TensorPrograms::Evaluate(const std::shared_ptr<const Graph>& graph, Output output,
                                          std::span<const Component> arguments, const PipelineEnvironment& environment,
                                          const InputBudget* budget) {
  const Node& node = *output.node;
  if (node.type() == "Const") return node.attr<Tensor>("value");
  if (node.type() == "_Arg") {
    const auto index = static_cast<size_t>(node.attr<int64_t>("index"));
    if (index >= arguments.size() || arguments[index].dtype() == DType::kString)
      return InvalidArgument("argument '{}' has no tensor", node.name());
    return arguments[index].tensor();
  }
  MutexLock lock(mutex_);
  Entry& entry = entries_[{node.id(), output.port}];
  // Strings among the arguments cannot be fed: feeds only the arguments that the tensor needs.
  std::vector<Node*> needed;
  std::vector<Component> values;
  for (Node* each : graph->TopologicalOrder(std::vector{output.node})) {
    if (each->type() != "_Arg") continue;
    const auto index = static_cast<size_t>(each->attr<int64_t>("index"));
    if (index >= arguments.size()) return InvalidArgument("argument '{}' has no value", each->name());
    needed.push_back(each);
    values.push_back(arguments[index]);
  }
  if (entry.runner == nullptr)
    entry.runner =
        std::make_shared<FunctionRunner>(graph, needed, std::vector{output}, std::vector<Node*>{}, environment.compile,
                                         environment.rng, fmt::format("the value of '{}'", output.name()));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Component> results,
                           entry.runner->Run(values, {}, budget, {}, entry.state));
  return results[0].tensor();
}

StatusOr<std::shared_ptr<const Pipeline>> MakePipeline(const MakePipelineFn& make, PipelineArguments& arguments) {
  int64_t stages = 1;
  for (const auto& dataset : arguments.datasets) stages += dataset->stages();
  if (stages > kMostStages)
    return InvalidArgument("{}: an element passes {} stages up to here, more than {}", arguments.where(), stages,
                           kMostStages);
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Pipeline> pipeline, make(arguments));
  pipeline->set_stages(stages);
  return std::shared_ptr<const Pipeline>(std::move(pipeline));
}

StatusOr<std::shared_ptr<const Pipeline>> BuildPipeline(const std::shared_ptr<const Graph>& graph, Output dataset,
                                                        const std::shared_ptr<const PipelineEnvironment>& environment,
                                                        std::span<const Component> arguments, TensorPrograms* programs,
                                                        const InputBudget* budget) {
  if (dataset.dtype() != DType::kVariant)
    return InvalidArgument("'{}' is {}, and no dataset", dataset.name(), Name(dataset.dtype()));
  TensorPrograms own;
  Builder builder(graph, environment, arguments, programs == nullptr ? own : *programs, budget);
  return builder.Build(dataset, 0);
}

}  // namespace rivulet
