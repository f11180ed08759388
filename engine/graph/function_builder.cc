#include "engine/graph/function_builder.h"

#include <algorithm>
#include <optional>

#include "engine/graph/function_call.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

bool IsNodeOf(const Graph& graph, const Node* node) {
  const size_t id = static_cast<size_t>(node->id());
  return id < graph.nodes().size() && graph.nodes()[id].get() == node;
}

// A function body under construction. The bodies of an If or a While must have the same arguments, but each captures
// the tensors that it uses. So bodies of one node share a list of captures, and a body that does not use a capture gets
// an unused argument.
class Body {
 public:
  Body(const Scope& around, std::string name, std::vector<Output>& captured)
      : around_(around),
        name_(std::move(name)),
        captured_(captured),
        scope_(graph_, name_, [this](Output output) { return Capture(output); }) {}

  const Scope& scope() const { return scope_; }

  Output AddArgument(DType dtype, Shape shape, std::string_view name, DType variable = DType::kInvalid) {
    AttrMap attrs = {{"T", dtype}, {"index", int64_t{given_++}}, {"shape", std::move(shape)}};
    if (variable != DType::kInvalid) attrs["_handle_dtype"] = variable;
    return scope_.Op("_Arg", {}, std::move(attrs), name);
  }

  // `result` may itself be a tensor of the surrounding graph.
  void SetResults(std::vector<Output> results) {
    count_ = results.size();
    for (Output& result : results) {
      if (!scope_.status().ok()) return;
      if (!result) {
        scope_.Fail(InvalidArgument("function '{}': result {} is empty", name_, results_.size()));
        return;
      }
      const StatusOr<Output> own = IsNodeOf(graph_, result.node) ? StatusOr<Output>(result) : Capture(result);
      if (!own.ok()) {
        scope_.Fail(own.status());
        return;
      }
      results_.push_back(*own);
    }
  }
  size_t count() const { return count_; }

  // Makes captured arguments results too. A capture of a
  // loop is a loop variable that each iteration passes on
  // unchanged, which the compiler recognises as invariant.
  void PassCapturesOn() {
    AddMissing();
    for (size_t i = 0; i < captured_.size() && scope_.status().ok(); ++i) results_.push_back(arguments_[i]);
  }

  // Adds the function to the surrounding graph; null after an error.
  std::shared_ptr<const Function> Finish() {
    AddMissing();
    Status status = scope_.status();
    std::shared_ptr<const Function> function;
    if (status.ok()) {
      auto made = Function::Create(name_, std::move(graph_), results_);
      status = made.status();
      if (status.ok()) function = *std::move(made);
    }
    if (status.ok()) status = around_.graph().AddFunction(function);
    if (status.ok()) return function;
    around_.Fail(std::move(status));
    return nullptr;
  }

 private:
  StatusOr<Output> Capture(Output output) {
    size_t at = 0;
    while (at < captured_.size() && !(captured_[at] == output)) ++at;
    if (at == captured_.size()) captured_.push_back(output);
    if (arguments_.size() <= at) arguments_.resize(captured_.size());
    if (!arguments_[at]) arguments_[at] = NewArgument(at);
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return arguments_[at];
  }

  // Indices of captured arguments are known once all bodies are built: they follow the given ones, in order.
  Output NewArgument(size_t at) {
    const Output output = captured_[at];
    const Node* handle = output.dtype() == DType::kResource ? HandleOf(output) : nullptr;
    AttrMap attrs = {{"T", output.dtype()},
                     {"index", static_cast<int64_t>(static_cast<size_t>(given_) + at)},
                     {"shape", output.shape()}};
    if (handle != nullptr && HandleDType(*handle) != DType::kInvalid) attrs["_handle_dtype"] = HandleDType(*handle);
    std::string_view name = output.node->name();
    if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
    return scope_.Op("_Arg", {}, std::move(attrs), name);
  }

  void AddMissing() {
    arguments_.resize(captured_.size());
    for (size_t i = 0; i < captured_.size(); ++i)
      if (!arguments_[i]) arguments_[i] = NewArgument(i);
  }

  const Scope& around_;
  std::string name_;
  std::vector<Output>& captured_;
  std::vector<Output> arguments_;  // by index in captured_; empty if unused in this body
  Graph graph_;
  Scope scope_;
  int64_t given_ = 0;
  std::vector<Output> results_;
  size_t count_ = 0;
};

bool HoldsState(const Function& function) {
  return std::ranges::any_of(function.body->nodes(), [](const auto& node) { return node->op().stateful; });
}

std::vector<DType> TypesOf(const Function& function) {
  std::vector<DType> types;
  for (const Output& result : function.results) types.push_back(result.dtype());
  return types;
}

std::vector<Output> OutputsOf(Node* node, size_t count) {
  std::vector<Output> outputs(count);
  for (size_t i = 0; node != nullptr && i < count; ++i) outputs[i] = node->output(static_cast<int>(i));
  return outputs;
}

std::string FunctionName(const Scope& scope, std::string_view name, std::string_view part) {
  return UniqueFunctionName(scope, fmt::format("{}{}_{}", scope.prefix(), name, part));
}

// All branches are built before any is finished, because the last may still capture an argument for all.
std::vector<Output> Branches(const Scope& scope, Output selector, std::span<const BuildBranch> build,
                             std::string_view name, bool is_if) {
  std::vector<Output> captured;
  std::vector<std::unique_ptr<Body>> bodies;
  for (size_t i = 0; i < build.size(); ++i) {
    const std::string part = is_if ? (i == 0 ? "then" : "else") : fmt::format("branch_{}", i);
    bodies.push_back(std::make_unique<Body>(scope, FunctionName(scope, name, part), captured));
    bodies[i]->SetResults(build[i](bodies[i]->scope()));
  }
  const size_t count = bodies.empty() ? 0 : bodies[0]->count();
  std::vector<FunctionRef> references;
  bool stateful = false;
  std::vector<DType> types;
  for (const auto& body : bodies) {
    const std::shared_ptr<const Function> function = body->Finish();
    if (function == nullptr) return std::vector<Output>(count);
    references.push_back({function->name});
    stateful = stateful || HoldsState(*function);
    types = TypesOf(*scope.graph().FindFunction(references[0].name));
  }
  AttrMap attrs = {{"Tout", types}};
  if (is_if) {
    attrs["then_branch"] = references[0];
    attrs["else_branch"] = references[1];
  } else {
    attrs["branches"] = references;
  }
  std::vector<Output> inputs = {selector};
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  const std::string op = fmt::format("{}{}", stateful ? "" : "Stateless", is_if ? "If" : "Case");
  return OutputsOf(scope.AddNode(op, std::move(inputs), std::move(attrs), name), count);
}

}  // namespace

// Function names are global in their library, so the name includes the whole path of the scope.
std::string UniqueFunctionName(const Scope& scope, std::string_view base) {
  std::string wanted = scope.function().empty() ? std::string(base) : fmt::format("{}_{}", scope.function(), base);
  for (char& c : wanted)
    if (c == '/' || c == '>' || c == '\\') c = '_';
  std::string unique = wanted;
  for (int count = 0; scope.graph().FindFunction(unique) != nullptr;) unique = fmt::format("{}_{}", wanted, ++count);
  return unique;
}

CapturingFunction MakeFunction(const Scope& scope, std::string_view name, std::span<const TensorSpec> arguments,
                               const BuildBody& build) {
  CapturingFunction made;
  Body body(scope, UniqueFunctionName(scope, fmt::format("{}{}", scope.prefix(), name)), made.captured);
  std::vector<Output> given;
  for (size_t i = 0; i < arguments.size(); ++i)
    given.push_back(body.AddArgument(arguments[i].dtype, arguments[i].shape, fmt::format("argument_{}", i)));
  body.SetResults(build(body.scope(), given));
  made.function = body.Finish();
  return made;
}

std::vector<Output> Call(const Scope& scope, const CapturingFunction& function, std::vector<Output> arguments,
                         std::string_view name) {
  if (function.function == nullptr) {
    scope.Fail(InvalidArgument("a call of a function that could not be made"));
    return {};
  }
  arguments.insert(arguments.end(), function.captured.begin(), function.captured.end());
  const Function& called = *function.function;
  if (const Status added = scope.graph().AddFunction(function.function); !added.ok()) scope.Fail(added);
  const std::string op = HoldsState(called) ? "StatefulPartitionedCall" : "PartitionedCall";
  Node* node =
      scope.AddNode(op, std::move(arguments), {{"Tout", TypesOf(called)}, {"f", FunctionRef{called.name}}}, name);
  return OutputsOf(node, called.results.size());
}

std::vector<Output> Cond(const Scope& scope, Output predicate, const BuildBranch& then_branch,
                         const BuildBranch& else_branch, std::string_view name) {
  const BuildBranch branches[] = {then_branch, else_branch};
  return Branches(scope, predicate, branches, name, true);
}

std::vector<Output> SwitchCase(const Scope& scope, Output index, std::span<const BuildBranch> branches,
                               std::string_view name) {
  return Branches(scope, index, branches, name, false);
}

std::vector<Output> WhileLoop(const Scope& scope, const BuildCondition& condition, const BuildBody& body,
                              std::vector<Output> initial, std::string_view name, std::vector<Shape> shapes) {
  const size_t count = initial.size();
  std::vector<Output> captured;
  Body test(scope, FunctionName(scope, name, "cond"), captured),
      step(scope, FunctionName(scope, name, "body"), captured);
  if (std::ranges::any_of(initial, [](const Output& output) { return !output; }) && scope.status().ok())
    scope.Fail(InvalidArgument("the loop '{}{}': a variable starts with an empty tensor", scope.prefix(), name));
  if (!shapes.empty() && shapes.size() != count)
    scope.Fail(
        InvalidArgument("the loop '{}{}' has {} variables, but {} shapes", scope.prefix(), name, count, shapes.size()));
  if (!scope.status().ok()) return std::vector<Output>(count);
  for (Body* each : {&test, &step}) {
    std::vector<Output> variables;
    for (size_t i = 0; i < count; ++i)
      variables.push_back(each->AddArgument(initial[i].dtype(), shapes.empty() ? initial[i].shape() : shapes[i],
                                            fmt::format("variable_{}", i)));
    if (each == &test)
      each->SetResults({condition(each->scope(), variables)});
    else
      each->SetResults(body(each->scope(), variables));
  }
  if (step.count() != count && step.scope().status().ok())
    step.scope().Fail(InvalidArgument("the loop '{}{}' has {} variables, but its body gives {}", scope.prefix(), name,
                                      count, step.count()));
  step.PassCapturesOn();
  const auto test_function = test.Finish(), step_function = step.Finish();
  if (test_function == nullptr || step_function == nullptr) return std::vector<Output>(count);
  if (!shapes.empty())
    for (const Output& output : captured) shapes.push_back(output.shape());
  initial.insert(initial.end(), captured.begin(), captured.end());
  const bool stateful = HoldsState(*test_function) || HoldsState(*step_function);
  AttrMap attrs = {{"cond", FunctionRef{test_function->name}}, {"body", FunctionRef{step_function->name}}};
  if (!shapes.empty()) attrs["output_shapes"] = std::move(shapes);
  return OutputsOf(scope.AddNode(stateful ? "While" : "StatelessWhile", std::move(initial), std::move(attrs), name),
                   count);
}

}  // namespace rivulet
