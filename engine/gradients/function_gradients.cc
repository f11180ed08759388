#include "engine/gradients/function_gradients.h"

#include <algorithm>

#include "engine/graph/function_builder.h"
#include "engine/graph/function_call.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// The type of a call's argument, or of a handle's variable; kInvalid if unknown.
DType ArgumentDType(Output input, std::span<const Function* const> functions, size_t argument) {
  if (input.dtype() != DType::kResource) return input.dtype();
  const Node* handle = HandleOf(input);
  DType dtype = handle == nullptr ? DType::kInvalid : HandleDType(*handle);
  for (const Function* function : functions)
    if (dtype == DType::kInvalid) dtype = HandleDType(*function->arguments[argument]);
  return dtype;
}

// Copies the part of a body that the results need, without its effects. The backward function needs
// values of the forward one. Returning them as results would make every forward call costlier, even
// without gradients, and a branch not taken has no values to return. So the gradient function
// recomputes them from the arguments. If both functions are inlined, equal nodes are merged and
// computed once.
class BodyCopy {
 public:
  BodyCopy(const Function& function, std::span<const DType> handle_types, Graph& copy)
      : function_(function), handle_types_(handle_types), copy_(copy) {}

  Status Run(std::span<const int> results) {
    for (const auto& [name, called] : function_.body->functions()) RIVULET_RETURN_IF_ERROR(copy_.AddFunction(called));
    const auto& nodes = function_.body->nodes();
    copies_.resize(nodes.size());
    std::vector<bool> needed(nodes.size());
    std::vector<const Node*> stack;
    const auto need = [&](const Node* node) {
      if (needed[static_cast<size_t>(node->id())]) return;
      needed[static_cast<size_t>(node->id())] = true;
      stack.push_back(node);
    };
    for (const Node* argument : function_.arguments) need(argument);
    for (const int result : results) need(function_.results[static_cast<size_t>(result)].node);
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      for (const Output& input : node->inputs()) need(input.node);
    }
    const FunctionEffects effects = EffectsOf(function_);
    std::vector<Node*> all;
    for (const auto& node : nodes) all.push_back(node.get());
    // A dropout mask that is drawn again must be the same mask: the copy keeps each random op's place, although some
    // nodes are left out.
    const std::vector<int> random_indices = RandomIndices(*function_.body);
    for (const Node* node : function_.body->TopologicalOrder(all)) {
      const size_t id = static_cast<size_t>(node->id());
      if (!needed[id]) continue;
      RIVULET_RETURN_IF_ERROR(CheckRepeatable(*node, effects));
      NodeSpec spec{node->name(),  std::string(node->type()), {}, {}, node->attrs(), node->source_line(),
                    node->device()};
      for (const Output& input : node->inputs()) spec.inputs.push_back(At(input));
      if (node->type() == "_Arg" && HandleDType(*node) == DType::kInvalid && !handle_types_.empty()) {
        const DType dtype = handle_types_[static_cast<size_t>(node->attr<int64_t>("index"))];
        if (node->outputs()[0].dtype == DType::kResource && dtype != DType::kInvalid)
          spec.attrs["_handle_dtype"] = dtype;
      }
      if (random_indices[id] >= 0) spec.attrs["_random_index"] = int64_t{random_indices[id]};
      RIVULET_ASSIGN_OR_RETURN(copies_[id], copy_.AddNode(std::move(spec)));
    }
    return absl::OkStatus();
  }

  Output At(Output output) const { return {copies_[static_cast<size_t>(output.node->id())], output.port}; }

 private:
  // May be run again after the function has run.
  // Effects would happen twice, and a variable that the function changes would be read with another value than in the
  // forward run. Both are refused, with the way out in the message.
  Status CheckRepeatable(const Node& node, const FunctionEffects& effects) const {
    FunctionEffects own;
    if (RunsFunctions(node.type()))
      own = EffectsOfCall(node.type(), node.attrs(), node.inputs().size(), FunctionsOf(*function_.body));
    else
      own.effects = !HasNoEffect(node.op());
    if (own.effects)
      return Unimplemented("function '{}': {} has an effect, and a gradient through it would run it again",
                           function_.name, DescribeNode(node));
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const Node* handle = node.inputs()[i].dtype() == DType::kResource ? HandleOf(node.inputs()[i]) : nullptr;
      if (handle == nullptr || node.type() == "Identity" || (i < own.reads.size() && !own.reads[i])) continue;
      if (handle->type() != "_Arg")
        return Unimplemented("function '{}' makes the handle of the variable '{}' itself; pass it as an argument",
                             function_.name, handle->name());
      if (effects.writes[static_cast<size_t>(handle->attr<int64_t>("index"))])
        return Unimplemented(
            "function '{}' reads and changes the variable of its argument '{}', and a gradient would read it again; "
            "read it outside and pass its value",
            function_.name, handle->name());
    }
    return absl::OkStatus();
  }

  const Function& function_;
  std::span<const DType> handle_types_;
  Graph& copy_;
  std::vector<Node*> copies_;
};

}  // namespace

StatusOr<std::shared_ptr<const Function>> GradientFunction(const Function& function, std::span<const int> results,
                                                           std::span<const int> arguments, std::string name,
                                                           std::span<const DType> handle_types) {
  Graph body;
  BodyCopy copy(function, handle_types, body);
  RIVULET_RETURN_IF_ERROR(copy.Run(results));
  Scope scope(body, name);
  std::vector<Output> ys, y_gradients, xs;
  for (const int result : results) {
    const Output y = function.results[static_cast<size_t>(result)];
    ys.push_back(copy.At(y));
    const int64_t index = static_cast<int64_t>(function.arguments.size() + y_gradients.size());
    y_gradients.push_back(scope.Op("_Arg", {}, {{"T", y.dtype()}, {"index", index}, {"shape", y.shape()}}, "gradient"));
  }
  for (const int argument : arguments)
    xs.push_back(copy.At(function.arguments[static_cast<size_t>(argument)]->output()));
  RIVULET_RETURN_IF_ERROR(scope.status());
  const StatusOr<std::vector<Output>> gradients = ComputeGradients(scope, ys, y_gradients, xs);
  if (!gradients.ok()) return Annotate(gradients.status(), fmt::format("function '{}'", function.name));
  return Function::Create(std::move(name), std::move(body), *gradients);
}

// The gradient of a call is a call of the same kind: an If of gradient functions under the same condition, so that only
// the branch that was taken is differentiated.
Status FunctionCallGradient(GradientContext& g) {
  const Node& node = *g.node();
  const FunctionCall call = DescribeFunctionCall(node.type(), node.attrs());
  Graph& graph = g.scope().graph();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const Function*> functions, FindFunctions(call, FunctionsOf(graph)));
  // Missing gradients are not passed, and unneeded ones are not computed: the functions are built for this call
  // alone.
  std::vector<int> results, arguments;
  std::vector<Output> inputs(node.inputs().begin(), node.inputs().end());
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    const Output gradient = g.grad(static_cast<int>(port));
    if (!gradient) continue;
    results.push_back(static_cast<int>(port));
    inputs.push_back(gradient);
  }
  const FunctionEffects effects = EffectsOfCall(node.type(), node.attrs(), node.inputs().size(), FunctionsOf(graph));
  std::vector<DType> types, handle_types;
  for (size_t i = 0; i < node.inputs().size() - call.first_argument; ++i) {
    const int input = static_cast<int>(call.first_argument + i);
    const bool handle = node.input(input).dtype() == DType::kResource;
    const DType dtype = ArgumentDType(node.input(input), functions, i);
    handle_types.push_back(handle ? dtype : DType::kInvalid);
    if (!g.wants(input)) continue;
    if (dtype == DType::kInvalid && effects.reads[static_cast<size_t>(input)])
      return Unimplemented("input {} is the handle of a variable of unknown type", input);
    if (!IsFloating(dtype) && dtype != DType::kVariant) continue;
    arguments.push_back(static_cast<int>(i));
    types.push_back(dtype);
  }
  if (results.empty() || arguments.empty()) return absl::OkStatus();

  std::vector<FunctionRef> references;
  for (const Function* function : functions) {
    std::string name = UniqueFunctionName(g.scope(), function->name + "_grad");
    RIVULET_ASSIGN_OR_RETURN(auto gradient, GradientFunction(*function, results, arguments, name, handle_types));
    RIVULET_RETURN_IF_ERROR(graph.AddFunction(std::move(gradient)));
    references.push_back({std::move(name)});
  }
  AttrMap attrs = {{"Tout", types}};
  if (call.kind == FunctionCall::Kind::kCase) {
    attrs["branches"] = references;
  } else {
    for (size_t i = 0; i < references.size(); ++i) attrs[call.roles[i]] = references[i];
  }
  // The stream of a call depends on the node, so the gradient names the node whose stream it draws again.
  if (effects.draws) attrs["_random_of"] = node.name();
  if (node.HasAttr("_noinline")) attrs["_noinline"] = node.attrs().at("_noinline");
  Node* gradient = g.scope().AddNode(node.type(), std::move(inputs), std::move(attrs));
  RIVULET_RETURN_IF_ERROR(g.scope().status());
  for (size_t i = 0; i < arguments.size(); ++i)
    g.set_input_grad(static_cast<int>(call.first_argument) + arguments[i], gradient->output(static_cast<int>(i)));
  return absl::OkStatus();
}

}  // namespace rivulet
