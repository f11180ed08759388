#include "engine/program/variable_uses.h"

#include <algorithm>

#include "engine/graph/function.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Limit for nested calls: an untrusted graph could request 2^depth traversals.
constexpr int kMaxWalks = 10'000;

// Names of the functions that a node calls, and how they run.
struct Called {
  std::vector<std::string> functions;
  enum class How { kAlways, kOne, kPerhaps } how = How::kPerhaps;  // all of them; one of them; any number of times
};

Called CalledBy(const Node& node) {
  Called called;
  for (const auto& [name, value] : node.attrs()) {
    if (const auto* one = std::get_if<FunctionRef>(&value)) {
      called.functions.push_back(one->name);
    } else if (const auto* several = std::get_if<std::vector<FunctionRef>>(&value)) {
      for (const FunctionRef& each : *several) called.functions.push_back(each.name);
    }
  }
  const std::string_view type = node.type();
  if (type == "PartitionedCall" || type == "StatefulPartitionedCall") called.how = Called::How::kAlways;
  if (type == "If" || type == "StatelessIf" || type == "Case" || type == "StatelessCase")
    called.how = Called::How::kOne;
  return called;
}

// A session must know before a run which variables it locks exclusively and which must have a value. Both follow from
// the graph, including functions. If unsure, the result is conservative: written if possible, and needing a value
// unless one was certainly assigned before.
class Walk {
 public:
  std::vector<VariableUse> Of(std::span<const Node* const> nodes, const Graph* graph,
                              std::span<const Node* const> arguments) {
    std::vector<VariableUse> uses;
    for (const Node* node : nodes) {
      if (node->type() == "VarHandleOp") At(uses, node);
      const Called called = CalledBy(*node);
      if (!called.functions.empty()) {
        AddCalls(uses, *node, called, graph, arguments);
        continue;
      }
      for (const Output& input : node->inputs()) {
        if (input.dtype() != DType::kResource) continue;
        const Node* handle = Resolve(input, arguments);
        if (handle == nullptr || StructuralKind(node->type()) == StructuralOp::kView) continue;
        VariableUse& use = At(uses, handle);
        const bool assigns = node->type() == "AssignVariableOp";
        // Nodes are in execution order, so an assignment earlier in the same run makes an initial value unnecessary. A
        // shape is known without a value.
        if (!assigns && !use.assigned && node->type() != "VariableShape") use.needs_value = true;
        if (assigns) use.assigned = true;
        if (node->op().stateful && !OnlyReadsVariables(node->type())) use.written = true;
      }
    }
    return uses;
  }

 private:
  static VariableUse& At(std::vector<VariableUse>& uses, const Node* handle) {
    for (VariableUse& use : uses)
      if (use.handle == handle || VariableName(*use.handle) == VariableName(*handle)) return use;
    return uses.emplace_back(VariableUse{handle});
  }

  // The VarHandleOp, or nullptr: a queue's handle, or an unknown one.
  static const Node* Resolve(Output resource, std::span<const Node* const> arguments) {
    const Node* handle = ResourceHandleOf(resource);
    if (handle->type() == "_Arg") {
      const size_t index = static_cast<size_t>(handle->attr<int64_t>("index"));
      handle = index < arguments.size() ? arguments[index] : nullptr;
    }
    return handle != nullptr && handle->type() == "VarHandleOp" ? handle : nullptr;
  }

  void AddCalls(std::vector<VariableUse>& uses, const Node& node, const Called& called, const Graph* graph,
                std::span<const Node* const> arguments) {
    // The conservative result: more locks than necessary, but equal values.
    if (++walks_ > kMaxWalks) {  // then all its inputs count as written
      for (const Output& input : node.inputs()) {
        const Node* handle = input.dtype() == DType::kResource ? Resolve(input, arguments) : nullptr;
        if (handle == nullptr) continue;
        VariableUse& use = At(uses, handle);
        use.needs_value = use.needs_value || !use.assigned;
        use.written = true;
      }
      return;
    }
    std::vector<std::vector<VariableUse>> each;
    for (const std::string& name : called.functions) {
      const Function* function = graph->FindFunction(name);
      if (function == nullptr) continue;
      // Arguments are the last inputs, after a condition or an index.
      const size_t count = std::min(function->arguments.size(), node.inputs().size());
      const auto inputs = node.inputs().last(count);
      std::vector<const Node*> given;
      for (const Output& input : inputs)
        given.push_back(input.dtype() == DType::kResource ? Resolve(input, arguments) : nullptr);
      std::vector<Node*> roots = function->control_results;
      for (const Output& result : function->results) roots.push_back(result.node);
      const std::vector<Node*> order = function->body->TopologicalOrder(roots);
      each.push_back(Of(std::vector<const Node*>(order.begin(), order.end()), function->body.get(), given));
    }
    for (const auto& inner : each)
      for (const VariableUse& use : inner) {
        VariableUse& outer = At(uses, use.handle);
        outer.needs_value = outer.needs_value || (use.needs_value && !outer.assigned);
        outer.written = outer.written || use.written;
      }
    if (called.how == Called::How::kPerhaps || each.empty()) return;
    // One branch runs, and it is unknown which: a variable certainly has a value afterwards only if every branch
    // assigns it.
    for (const VariableUse& use : each[0]) {
      const bool in_all = std::all_of(each.begin(), each.end(), [&](const std::vector<VariableUse>& inner) {
        return std::any_of(inner.begin(), inner.end(), [&](const VariableUse& other) {
          return other.assigned && VariableName(*other.handle) == VariableName(*use.handle);
        });
      });
      if (in_all) At(uses, use.handle).assigned = true;
    }
  }

  int walks_ = 0;
};

}  // namespace

const Node* ResourceHandleOf(Output resource) {
  const Node* node = resource.node;
  while (StructuralKind(node->type()) == StructuralOp::kView && !node->inputs().empty()) node = node->input(0).node;
  return node;
}

std::vector<VariableUse> VariableUses(const Graph& graph, std::span<const Node* const> nodes) {
  return Walk().Of(nodes, &graph, {});
}

}  // namespace rivulet
