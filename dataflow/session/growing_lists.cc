#include "dataflow/session/growing_lists.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "engine/graph/function_call.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"

namespace rivulet {
namespace {

// Whether the op returns the list of its input 0 with the same length.
bool KeepsLength(const Node& node) {
  const std::string_view op = node.type();
  if (op == "TensorListSetItem") return !node.attr<bool>("resize_if_index_out_of_bounds");
  return op == "Identity" || op == "TensorListScatterIntoExistingList";
}

bool IsLoop(const Node& node) { return node.type() == "While" || node.type() == "StatelessWhile"; }

// Determines whether the length of a list depends on values, by walking from the list back to its origin. Other ops
// that make lists define the length by sizes, if these are known.
class Growth {
 public:
  explicit Growth(const Graph& graph) : graph_(graph) {}

  bool Of(const Output& list) {
    if (!seen_.insert({list.node, list.port}).second) return false;
    const Node& node = *list.node;
    if (node.type() == "TensorListSetItem" && !KeepsLength(node)) return true;
    if (KeepsLength(node)) return Of(node.input(0));
    if (node.type() == "TensorListPushBack" || node.type() == "TensorListPopBack") return Of(node.input(0));
    if (!IsLoop(node)) return false;
    const Turn turn = InATurn(node, list.port, graph_);
    return turn.grows || (turn.argument && Of(node.input(static_cast<int>(*turn.argument))));
  }

 private:
  // The effect of one iteration of a loop of `graph` on the list that is its output `port`.
  struct Turn {
    bool grows = false;                   // or shrinks
    std::optional<size_t> argument = {};  // the loop's argument with the same list, whose length changes relative to it
  };
  static Turn InATurn(const Node& loop, int port, const Graph& graph) {
    const Function* body = graph.FindFunction(DescribeFunctionCall(loop.type(), loop.attrs()).functions[1]);
    if (body == nullptr) return {};
    Output result = body->results[static_cast<size_t>(port)];
    while (true) {
      const Node& node = *result.node;
      int input = 0;
      if (IsLoop(node)) {
        const Turn inner = InATurn(node, result.port, *body->body);
        if (!inner.argument) return inner;
        input = static_cast<int>(*inner.argument);
      } else if (!KeepsLength(node)) {
        if (node.type() == "TensorListSetItem" || node.type() == "TensorListPushBack" ||
            node.type() == "TensorListPopBack")
          return {.grows = true};
        const auto found = std::ranges::find(body->arguments, result.node);
        if (found == body->arguments.end()) return {};
        return {.argument = static_cast<size_t>(found - body->arguments.begin())};
      }
      result = node.input(input);
    }
  }

  const Graph& graph_;
  std::set<std::pair<const Node*, int>> seen_;
};

}  // namespace

bool IsGrowingStack(const Graph& graph, const Node& node) {
  if (node.type() != "TensorListStack" || node.attr<int64_t>("num_elements") >= 0) return false;
  const Shape& stacked = node.outputs()[0].shape;
  return (!stacked.known_rank() || stacked.dim(0) == kUnknownDim) && Growth(graph).Of(node.input(0));
}

StatusOr<GatheredLists> GatherGrowingLists(std::shared_ptr<const Graph> graph) {
  GatheredLists made{std::move(graph), {}};
  std::vector<std::string> stacks;
  for (const auto& node : made.graph->nodes())
    if (IsGrowingStack(*made.graph, *node)) stacks.push_back(node->name());
  if (stacks.empty()) return made;
  Graph copy = made.graph->Clone();
  for (const std::string& name : stacks) {
    Node* const stack = copy.Find(name);
    const Scope scope = Scope(copy).WithDevice(stack->device());
    const Output list = stack->input(0), length = scope.Op("TensorListLength", {list}, {}, name + "/length"),
                 rows = scope.Op("Range",
                                 {scope.Const(Tensor::Scalar<int32_t>(0), name + "/first"), length,
                                  scope.Const(Tensor::Scalar<int32_t>(1), name + "/one")},
                                 {}, name + "/rows"),
                 gather = scope.Op("TensorListGather", {list, rows, stack->input(1)},
                                   {{"element_dtype", stack->attr<DType>("element_dtype")}}, name + "/gathered");
    RIVULET_RETURN_IF_ERROR(scope.status());
    for (Node* const user : copy.Consumers(stack->output()))
      for (size_t i = 0; i < user->inputs().size(); ++i)
        if (user->input(static_cast<int>(i)) == stack->output())
          RIVULET_RETURN_IF_ERROR(copy.ReplaceInput(user, static_cast<int>(i), gather));
    made.gathered.emplace(name, gather.name());
  }
  made.graph = std::make_shared<const Graph>(std::move(copy));
  return made;
}

bool CanRunAgain(const Node& node) {
  return !node.op().stateful &&
         std::ranges::none_of(node.inputs(), [](const Output& input) { return input.dtype() == DType::kResource; });
}

}  // namespace rivulet
