#include "engine/models/unfreeze.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "engine/graph/function.h"
#include "engine/graph/function_call.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

// Inputs of ops that hold weights; `statistics` are not trained.
// A frozen graph does not say which constants were weights. What stands where an op takes weights, is floating and is
// no scalar was one; a constant that is only added or multiplied counts where the other side is computed, as biases and
// scales are.
struct WeightInput {
  std::string_view op;
  int input;
  bool statistics = false;
};
constexpr std::array<WeightInput, 28> kWeightInputs = {{{"MatMul", 1},
                                                        {"BatchMatMul", 1},
                                                        {"BatchMatMulV2", 1},
                                                        {"Einsum", 1},
                                                        {"Conv2D", 1},
                                                        {"Conv3D", 1},
                                                        {"Conv2DBackpropInput", 1},
                                                        {"DepthwiseConv2dNative", 1},
                                                        {"BiasAdd", 1},
                                                        {"GatherV2", 0},
                                                        {"Gather", 0},
                                                        {"FusedBatchNorm", 1},
                                                        {"FusedBatchNorm", 2},
                                                        {"FusedBatchNorm", 3, true},
                                                        {"FusedBatchNorm", 4, true},
                                                        {"FusedBatchNormV2", 1},
                                                        {"FusedBatchNormV2", 2},
                                                        {"FusedBatchNormV2", 3, true},
                                                        {"FusedBatchNormV2", 4, true},
                                                        {"FusedBatchNormV3", 1},
                                                        {"FusedBatchNormV3", 2},
                                                        {"FusedBatchNormV3", 3, true},
                                                        {"FusedBatchNormV3", 4, true},
                                                        {"LSTMBlockCell", 3},
                                                        {"BlockLSTM", 4},
                                                        {"BlockLSTMV2", 4},
                                                        {"Prelu", 1},
                                                        {"LayerNorm", 1}}};

// Ops whose result contains the elements of input `data`, so that a weight before one is still a weight.
struct Carrier {
  std::string_view op;
  int data;
};
constexpr std::array<Carrier, 13> kCarriers = {{{"Identity", 0},
                                                {"Reshape", 0},
                                                {"ExpandDims", 0},
                                                {"Squeeze", 0},
                                                {"Cast", 0},
                                                {"BroadcastTo", 0},
                                                {"Transpose", 0},
                                                {"Enter", 0},
                                                {"Split", 1},
                                                {"SplitV", 0},
                                                {"Unpack", 0},
                                                {"StridedSlice", 0},
                                                {"Slice", 0}}};
constexpr int kMaxDepth = 32;  // of carriers and of functions that call functions

// The Const that `input` is, also through Identity; nullptr for anything else.
const Node* ConstantBehind(Output input) {
  const Node* node = input.node;
  while (node->type() == "Identity" && node->inputs().size() == 1) node = node->input(0).node;
  return node->type() == "Const" ? node : nullptr;
}

bool MayBeWeight(const Node& node) {
  if (node.type() != "Const") return false;
  const TensorSpec& spec = node.outputs()[0];
  return IsFloating(spec.dtype) && spec.shape.rank() >= 1 && spec.shape.elements() > 0;
}

class WeightFinder {
 public:
  explicit WeightFinder(const Graph& graph) : graph_(graph) {}

  FrozenConstant RoleOf(Node& constant) {
    named_ = IsReadAsVariable(constant);
    shape_ = constant.outputs()[0].shape;
    std::optional<Place> place = PlaceOf(graph_, constant.output(), 0);
    if (place) return {constant.name(), place->statistics ? "running statistic" : "weight", place->why};
    if (named_) return {constant.name(), "weight", "it is read as a variable"};
    return {constant.name(), "constant", "no op uses it as a weight"};
  }

 private:
  struct Place {
    bool statistics = false;
    std::string why;
  };
  struct Use {
    Node* node;
    int input;
  };
  using Uses = std::multimap<std::pair<const Node*, int>, Use>;

  const Uses& UsesIn(const Graph& graph) {
    const auto [found, inserted] = uses_.try_emplace(&graph);
    if (inserted)
      for (const auto& node : graph.nodes())
        for (size_t i = 0; i < node->inputs().size(); ++i)
          found->second.emplace(std::pair<const Node*, int>(node->inputs()[i].node, node->inputs()[i].port),
                                Use{node.get(), static_cast<int>(i)});
    return found->second;
  }
  std::vector<Use> UsesOf(const Graph& graph, Output value) {
    std::vector<Use> uses;
    const auto [first, last] = UsesIn(graph).equal_range({value.node, value.port});
    for (auto use = first; use != last; ++use) uses.push_back(use->second);
    return uses;
  }

  // Freezing keeps the name of the variable's read: "dense/MatMul/ReadVariableOp", or "kernel/read" for a kernel.
  bool IsReadAsVariable(Node& constant) {
    if (constant.name().find("ReadVariableOp") != std::string::npos) return true;
    return std::ranges::any_of(UsesOf(graph_, constant.output()), [&](const Use& use) {
      const std::string& name = use.node->name();
      return use.node->type() == "Identity" &&
             (name.find("ReadVariableOp") != std::string::npos || name == constant.name() + "/read");
    });
  }

  // Where the value stands as a weight, or as statistics, which count more.
  std::optional<Place> PlaceOf(const Graph& graph, Output value, int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    std::optional<Place> found;
    for (const Use& use : UsesOf(graph, value)) {
      std::optional<Place> place = PlaceAt(graph, use, depth);
      if (place && (!found || place->statistics)) found = std::move(place);
    }
    return found;
  }

  std::optional<Place> PlaceAt(const Graph& graph, const Use& use, int depth) {
    Node& node = *use.node;
    const std::string_view op = node.type();
    const std::string why = fmt::format("input {} of {} '{}'", use.input, op, node.name());
    for (const WeightInput& weight : kWeightInputs)
      if (op == weight.op && use.input == weight.input) return Place{weight.statistics, why};
    if (op == "Add" || op == "AddV2" || op == "Mul" || op == "Sub") {
      if (const auto place = Elementwise(graph, use, why)) return place;
    }
    for (const Carrier& carrier : kCarriers) {
      if (op != carrier.op || use.input != carrier.data) continue;
      for (size_t port = 0; port < node.outputs().size(); ++port)
        if (auto place = PlaceOf(graph, node.output(static_cast<int>(port)), depth + 1)) return place;
    }
    if (RunsFunctions(op)) return InFunctions(graph, use, depth);
    return std::nullopt;
  }

  // x + bias and x · scale, with a vector on one side and something computed on the other. The variance of a batch
  // normalisation that was taken apart is added to a small number under a root, its mean is multiplied by what comes of
  // constants and subtracted from the offset.
  std::optional<Place> Elementwise(const Graph& graph, const Use& use, const std::string& why) {
    Node& node = *use.node;
    const Output other = node.input(1 - use.input);
    const auto follow = UsesOf(graph, node.output());
    const auto all = [&](auto&& what) { return !follow.empty() && std::ranges::all_of(follow, what); };
    if (ConstantBehind(other) != nullptr) {
      const bool under_root = node.type() != "Mul" && all([](const Use& next) {
                                return next.node->type() == "Rsqrt" || next.node->type() == "Sqrt";
                              });
      return under_root ? std::optional(Place{true, why}) : std::nullopt;
    }
    if (node.type() == "Mul" && ComesOfConstants(other) &&
        all([](const Use& next) { return next.node->type() == "Sub" && next.input == 1; }))
      return Place{true, why};
    const bool vector = shape_.rank() == 1 ||
                        (named_ && std::ranges::count_if(shape_.dims(), [](int64_t size) { return size != 1; }) <= 1);
    return vector && (node.type() != "Sub" || named_) ? std::optional(Place{false, why}) : std::nullopt;
  }

  static bool ComesOfConstants(Output value) {
    std::set<const Node*> seen;
    std::vector<const Node*> stack = {value.node};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (!seen.insert(node).second) continue;
      if (seen.size() > 16 || (node->inputs().empty() && node->type() != "Const")) return false;
      for (const Output& input : node->inputs()) stack.push_back(input.node);
    }
    return true;
  }

  // Uses of the argument in the bodies of a loop, a branch or a call.
  std::optional<Place> InFunctions(const Graph& graph, const Use& use, int depth) {
    const FunctionCall call = DescribeFunctionCall(use.node->type(), use.node->attrs());
    if (static_cast<size_t>(use.input) < call.first_argument) return std::nullopt;
    const size_t argument = static_cast<size_t>(use.input) - call.first_argument;
    for (const std::string& name : call.functions) {
      const Function* const function = graph.FindFunction(name);
      if (function == nullptr || argument >= function->arguments.size()) continue;
      Node* const inside = function->arguments[argument];
      if (auto place = PlaceOf(*function->body, inside->output(), depth + 1)) return place;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  bool named_ = false;  // of the constant that is looked at, as is its shape
  Shape shape_;
  std::map<const Graph*, Uses> uses_;
};

}  // namespace

// The constant's value becomes the initial value, so that the graph's results do not change until training. Names are
// kept, so weights can be exchanged by name.
StatusOr<UnfrozenGraph> Unfreeze(const Graph& graph) {
  UnfrozenGraph result;
  WeightFinder finder(graph);
  std::map<const Node*, bool> weights;  // and whether they are statistics
  for (const auto& node : graph.nodes()) {
    if (!MayBeWeight(*node)) continue;
    FrozenConstant constant = finder.RoleOf(*node);
    if (constant.role != "constant") weights.emplace(node.get(), constant.role != "weight");
    result.constants.push_back(std::move(constant));
  }
  for (const auto& [name, function] : graph.functions()) RIVULET_RETURN_IF_ERROR(result.graph.AddFunction(function));
  const Scope scope(result.graph);
  std::vector<Output> first_outputs(graph.nodes().size());  // of copies of constants: their variables' values
  std::vector<Node*> copies(graph.nodes().size());
  std::vector<Node*> all;
  for (const auto& node : graph.nodes()) all.push_back(node.get());
  for (const Node* node : graph.TopologicalOrder(all)) {
    const size_t id = static_cast<size_t>(node->id());
    if (const auto weight = weights.find(node); weight != weights.end()) {
      const Tensor& value = node->attr<Tensor>("value");
      const Initializer as_it_was(
          "frozen", [&](const Scope& inner, DType, const Shape&) { return inner.Const(value, "frozen"); });
      first_outputs[id] = Variable(scope, node->name(), value.shape(), as_it_was,
                                   {.dtype = value.dtype(), .segment = weight->second ? "shared" : "trainable"});
      RIVULET_RETURN_IF_ERROR(scope.status());
      copies[id] = first_outputs[id].node;
      result.variables.push_back(node->name());
      continue;
    }
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs()) {
      const Output value = first_outputs[static_cast<size_t>(input.node->id())];
      spec.inputs.push_back(value ? value : Output{copies[static_cast<size_t>(input.node->id())], input.port});
    }
    for (const Node* before : node->control_inputs())
      spec.control_inputs.push_back(copies[static_cast<size_t>(before->id())]);
    RIVULET_ASSIGN_OR_RETURN(copies[id], result.graph.AddNode(std::move(spec)));
  }
  return result;
}

}  // namespace rivulet
