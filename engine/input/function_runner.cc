#include "engine/input/function_runner.h"

#include "engine/compile/compile.h"

namespace rivulet {
namespace {

// Elements of ever new sizes would compile without end; padding them avoids this.
constexpr size_t kMostShapes = 256;

}  // namespace

FunctionRunner::FunctionRunner(std::shared_ptr<const Graph> body, std::vector<Node*> arguments,
                               std::vector<Output> results, std::vector<Node*> control_results, CompileOptions options,
                               StreamKey rng, std::string where)
    : body_(std::move(body)),
      arguments_(std::move(arguments)),
      results_(std::move(results)),
      control_results_(std::move(control_results)),
      options_(std::move(options)),
      rng_(rng),
      where_(std::move(where)) {}

std::shared_ptr<FunctionRunner> FunctionRunner::Of(const Function& function, const CompileOptions& options,
                                                   const StreamKey& rng, std::string where) {
  return std::make_shared<FunctionRunner>(function.body, function.arguments, function.results, function.control_results,
                                          options, rng, std::move(where));
}

StatusOr<std::shared_ptr<const Program>> FunctionRunner::ProgramFor(std::span<const Component> arguments,
                                                                    const std::string& key) const {
  MutexLock lock(mutex_);
  std::shared_ptr<const Program>& program = programs_[key];
  if (program != nullptr) return program;
  if (programs_.size() > kMostShapes) {
    programs_.erase(key);
    return ResourceExhausted("elements of more than {} different shapes; pad or resize them before", kMostShapes);
  }
  Signature signature;
  for (size_t i = 0; i < arguments.size(); ++i) signature.feeds.push_back({arguments_[i]->name(), arguments[i].spec()});
  for (const Output& result : results_) signature.fetches.push_back(result.name());
  for (const Node* node : control_results_) signature.targets.push_back(node->name());
  StatusOr<std::shared_ptr<const Program>> compiled = CompileProgram(*body_, signature, options_);
  if (!compiled.ok()) {
    programs_.erase(key);
    return compiled;
  }
  program = *std::move(compiled);
  return program;
}

// Programs are shared, instances are not: each iterator has its own State, so two iterators of one pipeline run
// concurrently.
StatusOr<std::vector<Component>> FunctionRunner::Run(std::span<const Component> arguments, const CallNumber& number,
                                                     const InputBudget* budget, const CancellationToken& cancel,
                                                     State& state) const {
  std::string key;
  if (arguments.size() != arguments_.size())
    return InvalidArgument("{}: the function takes {} arguments, and {} are given", where_, arguments_.size(),
                           arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const DType wanted = arguments_[i]->outputs()[0].dtype;
    if (arguments[i].dtype() != wanted)
      return InvalidArgument("{}: argument {} of the function is {}, and {} is given", where_, i, Name(wanted),
                             Name(arguments[i].dtype()));
    if (wanted == DType::kString)
      return InvalidArgument("{}: functions take no strings; parse them before, with ParseExampleDatasetV2", where_);
    key += arguments[i].shape().ToString();
  }
  State::Bound& bound = state.by_shapes_[key];
  if (bound.instance == nullptr) {
    const auto program = ProgramFor(arguments, key);
    if (!program.ok()) {
      state.by_shapes_.erase(key);
      return Annotate(program.status(), where_);
    }
    bound.program = *program;
    RIVULET_ASSIGN_OR_RETURN(bound.arena, AlignedBuffer::Create(bound.program->memory().arena_bytes));
    RIVULET_ASSIGN_OR_RETURN(bound.instance, bound.program->Instantiate());
  }
  std::vector<TensorView> feeds, fetches;
  for (const Component& argument : arguments) feeds.push_back(argument.tensor().view());
  std::vector<Component> results;
  for (const TensorSpec& spec : bound.program->fetch_specs()) {
    if (spec.dtype == DType::kString)
      return InvalidArgument("{}: functions of input pipelines give no strings; turn them into numbers there", where_);
    RIVULET_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(spec.dtype, spec.shape));
    fetches.push_back(result.view());
    results.emplace_back(std::move(result));
  }
  Bindings bindings;
  bindings.arena = bound.arena.data();
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  // Iteration and step determine each call's stream, so an element's random numbers do not depend on the thread or on
  // how many elements were made before.
  StreamKey rng = rng_;
  rng.key.words[0] ^= number.iteration * 0x9E3779B1u;
  bindings.rng = {&rng, 1};
  bindings.step = {&number.step, 1};
  if (budget != nullptr) {
    bindings.max_loop_steps = budget->limits().max_loop_steps;
    bindings.deadline = budget->limits().deadline;
  }
  const Status ran = bound.instance->Run(bindings, cancel);
  if (!ran.ok()) return Annotate(ran, where_);
  return results;
}

}  // namespace rivulet
