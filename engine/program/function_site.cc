#include "engine/program/function_site.h"

#include <algorithm>

#include "engine/graph/list_shape.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/program/concrete_graph.h"

namespace rivulet {
namespace {

std::string Quoted(const Function& function) { return fmt::format("function '{}'", function.name); }

}  // namespace

StatusOr<FunctionSite> MakeFunctionSite(const Function& function, std::span<const KnownArgument> arguments,
                                        std::span<const int> buffers, const std::vector<bool>& wanted) {
  FunctionSite site;
  // A function is compiled separately for each call site, with the shapes and the values known there. A constant
  // argument becomes a constant of the body instead of a feed, so that a shape or axis from the caller folds as in the
  // caller's graph.
  RIVULET_ASSIGN_OR_RETURN(site.body, SpecializeBody(function, arguments));
  size_t resources = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Node& argument = *function.arguments[i];
    if (arguments[i].spec.dtype == DType::kResource) {
      VariableBinding binding;
      binding.name = ArgumentVariable(argument);
      // Each handle is a separate buffer unless the caller knows that two are the same variable; then the shared buffer
      // makes hazards inside the body visible.
      binding.buffer = buffers.empty() ? static_cast<int>(resources) : buffers[resources];
      binding.spec = {arguments[i].variable, arguments[i].spec.shape};
      site.signature.variables.push_back(std::move(binding));
      ++resources;
    } else if (arguments[i].value == nullptr) {
      site.signature.feeds.push_back({argument.name(), arguments[i].spec});
      site.feeds.push_back(static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < function.results.size(); ++i) {
    if (function.result_dtype(i) == DType::kResource || (!wanted.empty() && !wanted[i])) continue;
    site.signature.fetches.push_back(function.results[i].name());
    site.fetches.push_back(static_cast<int>(i));
  }
  for (const Node* node : function.control_results) site.signature.targets.push_back(node->name());
  // A body's side effects happen whether or not its results are used, as with TensorFlow's automatic control
  // dependencies, so they are targets of the program.
  for (const auto& node : function.body->nodes()) {
    const bool effects =
        RunsFunctions(node->type())
            ? EffectsOfCall(node->type(), node->attrs(), node->inputs().size(), FunctionsOf(*function.body)).effects
            : !HasNoEffect(node->op());
    if (effects && std::ranges::find(site.signature.targets, node->name()) == site.signature.targets.end())
      site.signature.targets.push_back(node->name());
  }
  return site;
}

std::string ArgumentVariable(const Node& argument) { return fmt::format("argument '{}'", argument.name()); }

StatusOr<std::vector<TensorSpec>> ConcreteResults(const Function& function, std::span<const KnownArgument> arguments,
                                                  const CompileOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const FunctionSite site, MakeFunctionSite(function, arguments, {}, {}));
  std::vector<TensorSpec> specs;
  bool known = true;
  for (const Output& result : function.results) {
    RIVULET_ASSIGN_OR_RETURN(const Output inferred, site.body.FindOutput(result.name()));
    specs.push_back({inferred.dtype(), inferred.shape()});
    // Facts about a list increase while its elements become known.
    known = known && inferred.shape().IsFullyKnown() && inferred.dtype() != DType::kVariant;
  }
  // Most bodies' shapes follow from the graph, and a ConcreteGraph of a body that calls functions would be built again
  // at every level. It is only built if shapes depend on values.
  if (known) return specs;
  const StatusOr<ConcreteGraph> concrete = ConcreteGraph::Build(site.body, site.signature, options);
  if (!concrete.ok()) return Annotate(concrete.status(), Quoted(function));
  for (size_t i = 0; i < site.fetches.size(); ++i)
    specs[static_cast<size_t>(site.fetches[i])] = concrete->spec(concrete->value(concrete->fetches()[i]));
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].shape.IsFullyKnown() || specs[i].dtype == DType::kVariant) continue;
    const int argument = PassedArgument(function.results[i]);
    if (argument < 0)
      return Unimplemented("{}: result {} ('{}') is a handle that the function makes itself; pass it as an argument",
                           Quoted(function), i, function.result_names[i]);
    specs[i].shape = arguments[static_cast<size_t>(argument)].spec.shape;
  }
  return specs;
}

// Finds the common facts about lists in a loop, before and after any iteration: an inserted element defines the shape
// of all, and a growing list has no known length.
Status SettleLists(const Function& body, std::vector<KnownArgument>& kept, const CompileOptions& options) {
  if (std::ranges::none_of(kept, [](const KnownArgument& each) { return each.spec.dtype == DType::kVariant; }))
    return {};
  // A round either learns the shape of elements or drops a length. There are few such facts, so this ends soon; the
  // limit is for unexpected bodies.
  constexpr int kMostRounds = 6;
  for (int round = 0; round < kMostRounds; ++round) {
    RIVULET_ASSIGN_OR_RETURN(const FunctionSite site, MakeFunctionSite(body, kept, {}, {}));
    bool changed = false;
    const auto settle = [&](size_t i, const Shape& after) {
      if (kept[i].spec.dtype != DType::kVariant) return;
      Shape common = CommonList(kept[i].spec.shape, after);
      changed = changed || !(common == kept[i].spec.shape);
      kept[i].spec.shape = std::move(common);
    };
    for (size_t i = 0; i < kept.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(const Output result, site.body.FindOutput(body.results[i].name()));
      settle(i, result.shape());
    }
    if (changed) continue;  // facts from the graph come first: they need no known list
    RIVULET_ASSIGN_OR_RETURN(const std::vector<TensorSpec> after, ConcreteResults(body, kept, options));
    for (size_t i = 0; i < kept.size(); ++i) settle(i, after[i].shape);
    if (!changed) return {};
  }
  return {};
}

StatusOr<std::vector<TensorSpec>> ConcreteOutputs(const Node& node, const Graph& graph,
                                                  std::span<const KnownArgument> inputs,
                                                  const CompileOptions& options) {
  const FunctionCall call = DescribeFunctionCall(node.type(), node.attrs());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const Function*> functions, FindFunctions(call, FunctionsOf(graph)));
  const std::span<const KnownArgument> arguments = inputs.subspan(call.first_argument);
  if (call.kind == FunctionCall::Kind::kWhile) {
    const Function& body = *functions[1];
    std::vector<KnownArgument> kept(arguments.begin(), arguments.end());
    for (size_t i = 0; i < kept.size(); ++i)
      // A value known before the loop is known inside only if no iteration changes it.
      if (PassedArgument(body.results[i]) != static_cast<int>(i)) kept[i].value = nullptr;
    RIVULET_RETURN_IF_ERROR(SettleLists(body, kept, options));
    RIVULET_ASSIGN_OR_RETURN(std::vector<TensorSpec> after, ConcreteResults(body, kept, options));
    for (size_t i = 0; i < kept.size(); ++i) {
      if (after[i].dtype == DType::kVariant) {
        after[i].shape = CommonList(kept[i].spec.shape, after[i].shape);
        continue;
      }
      // Buffers of loop variables are planned once for
      // all iterations, so a loop variable must not grow.
      if (after[i].shape == kept[i].spec.shape) continue;
      return InvalidArgument(
          "loop variable {} ('{}') enters an iteration as {} and leaves it as {}; a program needs loop variables of "
          "one shape, so give it its largest shape from the start",
          i, body.arguments[i]->name(), kept[i].spec.shape.ToString(), after[i].shape.ToString());
    }
    return after;
  }
  // A branch that is known not to run is never compiled, and need not even be valid: this lets one model serve training
  // and inference by a constant.
  const Tensor* selector = call.first_argument == 0 ? nullptr : inputs[0].value;
  size_t first = 0, last = functions.size();
  if (selector != nullptr) {
    const bool is_if = call.kind == FunctionCall::Kind::kIf;
    first =
        is_if ? (TruthOf(*selector).value_or(false) ? 0 : 1) : BranchOf(selector->flat<int32_t>()[0], functions.size());
    last = first + 1;
  }
  std::vector<TensorSpec> specs;
  for (size_t branch = first; branch < last; ++branch) {
    StatusOr<std::vector<TensorSpec>> own = ConcreteResults(*functions[branch], arguments, options);
    if (!own.ok()) return Annotate(own.status(), call.roles[branch]);
    if (branch == first) specs = *own;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i] == (*own)[i]) continue;
      if (specs[i].dtype == DType::kVariant) {
        specs[i].shape = CommonList(specs[i].shape, (*own)[i].shape);
        continue;
      }
      return InvalidArgument(
          "output {} is {} by {} '{}' and {} by {} '{}'; a program needs branches that give one shape", i,
          specs[i].shape.ToString(), call.roles[first], functions[first]->name, (*own)[i].shape.ToString(),
          call.roles[branch], functions[branch]->name);
    }
  }
  return specs;
}

// The variable of each handle must be known at compile time. After a call this holds if every branch returns the same
// argument, and after a loop if each iteration passes it on in its own place.
int PassedInput(const Node& node, const Graph& graph, int port) {
  const FunctionCall call = DescribeFunctionCall(node.type(), node.attrs());
  const StatusOr<std::vector<const Function*>> functions = FindFunctions(call, FunctionsOf(graph));
  if (!functions.ok()) return -1;
  const bool loop = call.kind == FunctionCall::Kind::kWhile;
  int passed = -1;
  for (size_t i = loop ? 1 : 0; i < functions->size(); ++i) {
    const Function& function = *(*functions)[i];
    const int argument = PassedArgument(function.results[static_cast<size_t>(port)]);
    if (argument < 0 || (passed >= 0 && argument != passed) || (loop && argument != port)) return -1;
    passed = argument;
  }
  return passed < 0 ? -1 : passed + static_cast<int>(call.first_argument);
}

std::string HandleName(Output handle, const Graph& graph) {
  while (RunsFunctions(handle.node->type())) {
    const int passed = PassedInput(*handle.node, graph, handle.port);
    if (passed < 0) return "";
    handle = handle.node->input(passed);
  }
  const Node* node = HandleOf(handle);
  if (node == nullptr) return "";
  return node->type() == "_Arg" ? ArgumentVariable(*node) : std::string(VariableName(*node));
}

}  // namespace rivulet
