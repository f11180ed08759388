#include "engine/models/unfreeze.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

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

// The Const that `input` is, also through Identity; nullptr for anything else.
const Node* ConstantBehind(Output input) {
  const Node* node = input.node;
  while (node->type() == "Identity" && node->inputs().size() == 1) node = node->input(0).node;
  return node->type() == "Const" ? node : nullptr;
}

bool IsWeight(const Node& constant) {
  const TensorSpec& spec = constant.outputs()[0];
  return IsFloating(spec.dtype) && spec.shape.rank() >= 1 && spec.shape.elements() > 0;
}

// Constant → whether it holds statistics. What is both is a statistic.
std::map<const Node*, bool> FindWeights(const Graph& graph) {
  std::map<const Node*, bool> weights;
  const auto add = [&](Output input, bool statistics) {
    const Node* constant = ConstantBehind(input);
    if (constant == nullptr || !IsWeight(*constant)) return;
    bool& known = weights[constant];
    known = known || statistics;
  };
  for (const auto& node : graph.nodes()) {
    for (const WeightInput& weight : kWeightInputs)
      if (node->type() == weight.op && static_cast<size_t>(weight.input) < node->inputs().size())
        add(node->input(weight.input), weight.statistics);
    // x + bias and x · scale, with a vector on one side and something computed on the other.
    if (node->type() == "Add" || node->type() == "AddV2" || node->type() == "Mul")
      for (int side : {0, 1})
        if (ConstantBehind(node->input(1 - side)) == nullptr && node->input(side).shape().known_rank() &&
            node->input(side).shape().rank() == 1)
          add(node->input(side), false);
  }
  return weights;
}

}  // namespace

// The constant's own value becomes the first value, so that the graph computes what it did until it is trained; names
// stay, so weights can be exchanged by them.
StatusOr<UnfrozenGraph> Unfreeze(const Graph& graph) {
  const std::map<const Node*, bool> weights = FindWeights(graph);
  UnfrozenGraph result;
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
