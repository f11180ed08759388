#include "federated/plan/plan_input.h"

#include "engine/input/build_pipeline.h"
#include "engine/input/source_pipeline.h"

namespace rivulet {
namespace {

// Limits of a plan's input on a client: enough for augmentation and repeats, too little to occupy a client forever or
// fill its memory.
constexpr int64_t kElementsPerExample = 256, kElementsBeside = 65536;
constexpr size_t kHeldBytes = size_t{512} << 20;
constexpr int64_t kLoopSteps = 100'000;  // per call of a function
constexpr auto kTime = std::chrono::hours(1);

std::vector<TensorSpec> ExampleSpecs(const Plan& plan) {
  std::vector<TensorSpec> specs;
  for (const FeatureSpec& feature : plan.features())
    specs.push_back(
        {feature.encoding == FeatureSpec::Encoding::kInt64 ? DType::kInt64 : DType::kFloat32, feature.shape});
  return specs;
}

// The single data set of the pass.
class PlanSource : public BoundSources {
 public:
  PlanSource(const Plan& plan, const LocalPass& pass, std::shared_ptr<const ElementSource> source, int64_t size)
      : name_(pass.dataset), specs_(ExampleSpecs(plan)), source_(std::move(source)), size_(size) {}
  StatusOr<std::shared_ptr<Pipeline>> Open(std::string_view name, int64_t file, std::string where) const override {
    RIVULET_RETURN_IF_ERROR(Check(name, where));
    if (file >= 0) return NotFound("{}: a client's data set is not split into files; use BoundDataset", where);
    return ElementsOf(std::move(where), specs_, source_, size_);
  }
  StatusOr<int64_t> Files(std::string_view name) const override {
    RIVULET_RETURN_IF_ERROR(Check(name, "the number of files"));
    return NotFound("a client's data set is not split into files; use BoundDataset");
  }

 private:
  Status Check(std::string_view name, std::string_view where) const {
    if (name == name_) return absl::OkStatus();
    return NotFound("{}: '{}' is not bound; this plan's data set is '{}'", where, name, name_);
  }
  const std::string name_;
  const std::vector<TensorSpec> specs_;
  const std::shared_ptr<const ElementSource> source_;
  const int64_t size_;
};

StatusOr<std::shared_ptr<const Pipeline>> Build(const Plan& plan, const LocalPass& pass,
                                                std::shared_ptr<const ElementSource> source, int64_t size,
                                                const StreamKey& stream) {
  const std::shared_ptr<const Graph>& graph = pass.input;
  Node* const node = graph->Find(kInputNode);
  if (node == nullptr || node->outputs().size() != 1)
    return NotFound("no node '{}' gives the batches of a step", kInputNode);
  auto environment = std::make_shared<PipelineEnvironment>();
  environment->compile = plan.compile_options();
  environment->rng = stream;
  environment->bound = std::make_shared<PlanSource>(plan, pass, std::move(source), size);
  const InputBudget budget({.max_loop_steps = kLoopSteps});
  RIVULET_ASSIGN_OR_RETURN(const auto pipeline,
                           BuildPipeline(graph, node->output(), environment, {}, nullptr, &budget));
  std::vector<TensorSpec> batches;
  for (const TensorSpec& example : ExampleSpecs(plan)) {
    std::vector<int64_t> dims = {kUnknownDim};
    dims.insert(dims.end(), example.shape.dims().begin(), example.shape.dims().end());
    batches.push_back({example.dtype, Shape(dims)});
  }
  bool fits = pipeline->specs().size() == batches.size();
  for (size_t i = 0; fits && i < batches.size(); ++i)
    fits = pipeline->specs()[i].dtype == batches[i].dtype &&
           Shape::Compatible(pipeline->specs()[i].shape, batches[i].shape);
  if (!fits)
    return InvalidArgument("'{}' gives {}, but the model is fed with {}", kInputNode, Describe(pipeline->specs()),
                           Describe(batches));
  return pipeline;
}

}  // namespace

StatusOr<std::shared_ptr<const Pipeline>> BuildInput(const Plan& plan, const LocalPass& pass,
                                                     std::shared_ptr<const ElementSource> source, int64_t size,
                                                     const StreamKey& stream) {
  auto pipeline = Build(plan, pass, std::move(source), size, stream);
  if (!pipeline.ok()) return Annotate(pipeline.status(), "the plan's input graph");
  return pipeline;
}

// One thread: a client's cores may all run trainings, and elements must have a fixed order.
std::shared_ptr<InputBudget> InputBudgetFor(const LocalPass& pass, int64_t size) {
  InputBudget::Limits limits;
  limits.max_elements = kElementsPerExample * size * pass.epochs + kElementsBeside;
  limits.max_held_bytes = kHeldBytes;
  limits.max_threads = 1;
  limits.max_loop_steps = kLoopSteps;
  limits.deadline = std::chrono::steady_clock::now() + kTime;
  return std::make_shared<InputBudget>(limits);
}

// Builds the pipeline without examples: the graph alone defines its inputs and outputs.
Status CheckInput(const Plan& plan, const LocalPass& pass) { return BuildInput(plan, pass, nullptr, 0, {}).status(); }

}  // namespace rivulet
