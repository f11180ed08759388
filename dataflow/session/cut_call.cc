#include "dataflow/session/cut_call.h"

#include <algorithm>

#include "dataflow/resources/async_op.h"
#include "dataflow/session/growing_lists.h"
#include "engine/graph/compose.h"
#include "engine/graph/function.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/program/kernel.h"
#include "engine/program/variable_uses.h"

namespace rivulet {
namespace {

// Whether the value is known at compile time, as in RunPlan's parts.
bool IsKnown(const Node& node, const std::vector<bool>& known) {
  if (node.op().stateful || node.outputs().empty() || !node.control_inputs().empty()) return false;
  const std::string_view op = node.type();
  if (op == "Const" || op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank") return true;
  if (node.inputs().empty() || RunsFunctions(op)) return false;
  return std::ranges::all_of(node.inputs(),
                             [&](const Output& input) { return known[static_cast<size_t>(input.node->id())]; });
}

std::vector<Node*> NodesOf(const Function& function) {
  std::vector<Node*> roots = function.control_results;
  for (const Output& result : function.results) roots.push_back(result.node);
  return function.body->TopologicalOrder(roots);
}

bool HasDynamicNode(const Function& function) {
  std::vector<bool> known(function.body->nodes().size(), false);
  for (const Node* node : NodesOf(function)) {
    if (RunsFunctions(node->type()) && MustBeCut(*function.body, *node)) return true;
    if (IsGrowingStack(*function.body, *node)) return true;
    known[static_cast<size_t>(node->id())] = IsKnown(*node, known);
    // The bounds of a range are mostly arguments, whose values are known when the function is compiled for its call.
    if (!HasDynamicSizes(*node) || node->type() == "Range") continue;
    // A program can run the op if all its inputs are known and there is a kernel.
    if (!known[static_cast<size_t>(node->id())] || !KernelRegistry::Global().Has(node->type(), Device::kCpu))
      return true;
  }
  return false;
}

}  // namespace

bool HasDynamicSizes(const Node& node) {
  const auto is_known = [](const TensorSpec& output) { return output.shape.IsFullyKnown(); };
  return !std::ranges::all_of(node.outputs(), is_known) &&
         AsyncOpRegistry::Global().FindDynamic(node.type()) != nullptr;
}

bool MustBeCut(const Graph& graph, const Node& node) {
  const FunctionCall call = DescribeFunctionCall(node.type(), node.attrs());
  return std::ranges::any_of(call.functions, [&](const std::string& name) {
    const Function* function = graph.FindFunction(name);
    return function != nullptr && HasDynamicNode(*function);
  });
}

StatusOr<CutBody> BodyOfCut(const Graph& graph, const Node& node, const FunctionCall& call, size_t index) {
  const Function* function = graph.FindFunction(call.functions[index]);
  if (function == nullptr) return NotFound("{} is the function '{}'", call.roles[index], call.functions[index]);
  const auto no_list = [&](DType dtype, std::string_view what) -> Status {
    if (dtype != DType::kVariant) return absl::OkStatus();
    return Unimplemented(
        "{} '{}' has a size that follows from values in its function '{}', and {} is a list, which cannot leave a "
        "program",
        node.type(), node.name(), function->name, what);
  };
  Graph body;
  Scope scope(body);
  std::map<std::string, Output, std::less<>> instead;
  CutBody cut;
  std::vector<int> number(function->arguments.size(), -1);  // index of each argument among those that are not handles
  int count = 0;
  for (size_t i = 0; i < function->arguments.size(); ++i) {
    const Node& argument = *function->arguments[i];
    const Output given = node.input(static_cast<int>(call.first_argument + i));
    RIVULET_RETURN_IF_ERROR(no_list(given.dtype(), "an argument"));
    Output& made = instead[argument.name()];
    if (given.dtype() == DType::kResource) {
      const Node* handle = ResourceHandleOf(given);
      if (handle->type() != "VarHandleOp")
        return Unimplemented("{} '{}' hands {} '{}' to the function '{}', which has a size that follows from values",
                             node.type(), node.name(), handle->type(), handle->name(), function->name);
      AttrMap attrs = handle->attrs();
      attrs["shared_name"] = std::string(VariableName(*handle));
      made = scope.Op("VarHandleOp", {}, attrs, argument.name());
      continue;
    }
    number[i] = count++;
    // The shape of a loop's variable may change between iterations, within the bounds of its function.
    const Shape& shape = call.kind == FunctionCall::Kind::kWhile ? argument.outputs()[0].shape : given.shape();
    made = scope.Placeholder(argument.name(), given.dtype(), shape);
    cut.feeds.push_back(made.name());
    cut.function.arguments.push_back(number[i]);
  }
  RIVULET_RETURN_IF_ERROR(scope.status());
  std::map<std::string, std::string> names;
  RIVULET_RETURN_IF_ERROR(ImportInto(body, *function->body, "body", {}, &names, instead));
  for (const Output& result : function->results) {
    RIVULET_RETURN_IF_ERROR(no_list(result.dtype(), "a result"));
    if (result.dtype() == DType::kResource) {
      // A loop passes its handles unchanged from iteration to iteration.
      cut.function.fetch_of.push_back(-1);
      cut.function.argument_of.push_back(-1);
      continue;
    }
    const auto passed = std::ranges::find(function->arguments, result.node);
    if (passed != function->arguments.end()) {
      cut.function.fetch_of.push_back(-1);
      cut.function.argument_of.push_back(number[static_cast<size_t>(passed - function->arguments.begin())]);
      continue;
    }
    cut.function.fetch_of.push_back(static_cast<int>(cut.fetches.size()));
    cut.function.argument_of.push_back(-1);
    cut.fetches.push_back(Output{body.Find(names.at(result.node->name())), result.port}.name());
  }
  for (const Node* effect : function->control_results) cut.targets.push_back(names.at(effect->name()));
  cut.graph = std::make_shared<const Graph>(std::move(body));
  return cut;
}

}  // namespace rivulet
