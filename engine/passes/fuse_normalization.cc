// Fuses a batch normalisation with the Relu or Relu6 after it, and likewise their gradients. The activation is applied
// while the normalised value is in a register, and its gradient recomputes that value from x, which the normalisation's
// gradient reads anyway: this saves a third of the passes over the images. Names and attributes are TensorFlow's
// (_FusedBatchNormEx, _FusedBatchNormGradEx), except for the gradient's inputs.
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

constexpr std::string_view kForward = "_FusedBatchNormEx", kGradient = "_FusedBatchNormGradEx";

class NormalizationFusion {
 public:
  NormalizationFusion(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Visit(EditNode& node) {
    if (node.fed) return;
    if (node.type() == "Relu" || node.type() == "Relu6") FuseActivation(node);
    if (node.type() == "FusedBatchNormGradV3") FuseGradient(node);
  }

 private:
  // Requires a native kernel for the type: half precision is rounded between the two ops.
  bool HasKernel(std::string_view op, DType dtype) const {
    return (dtype == DType::kFloat32 || dtype == DType::kFloat64) && GraphEditor::HasOp(op) &&
           KernelRegistry::Global().IsRegisteredFor(op, context_.kernels.device, dtype);
  }

  void FuseActivation(EditNode& activation) {
    const Edge y = activation.inputs[0];
    EditNode& norm = *y.node;
    if (norm.type() != "FusedBatchNormV3" || y.port != 0 || norm.pinned || norm.uses[0] != 1) return;
    if (!HasKernel(kForward, y.dtype())) return;
    // Control inputs of the activation would delay the normalisation too.
    if (!activation.control_inputs.empty()) return;
    AttrMap attrs = norm.attrs;
    attrs["activation_mode"] = std::string(activation.type());
    const std::string name = activation.name;
    const std::string_view mode = activation.type();
    if (!graph_.Replace(activation, y)) return;
    graph_.Become(norm, kForward, norm.inputs, std::move(attrs));
    context_.log.push_back(fmt::format("{}: FusedBatchNormV3 and its {} in one", name, mode));
  }

  void FuseGradient(EditNode& gradient) {
    const Edge dy = gradient.inputs[0];
    const EditNode& inner = *dy.node;
    if (inner.type() != "ReluGrad" && inner.type() != "Relu6Grad") return;
    if (inner.fed || !GraphEditor::OnlyUse(dy) || !HasKernel(kGradient, dy.dtype())) return;
    const EditNode& norm = *inner.inputs[1].node;
    if (norm.type() != kForward || inner.inputs[1].port != 0) return;
    const std::string mode = *norm.FindAttr<std::string>("activation_mode");
    if (inner.type() != mode + "Grad") return;
    // The gradient must belong to this normalisation, because the value is recomputed from its inputs. With given
    // statistics, outside training, the gradient is one product, and there is little to save.
    const Edge mean{inner.inputs[1].node, 3}, variance{inner.inputs[1].node, 4};
    if (gradient.inputs[1] != norm.inputs[0] || gradient.inputs[2] != norm.inputs[1] || gradient.inputs[3] != mean ||
        gradient.inputs[4] != variance || !*gradient.FindAttr<bool>("is_training") ||
        !*norm.FindAttr<bool>("is_training") ||
        *gradient.FindAttr<float>("epsilon") != *norm.FindAttr<float>("epsilon")) {
      return;
    }
    std::vector<Edge> inputs = gradient.inputs;
    inputs[0] = inner.inputs[0];
    inputs.push_back(norm.inputs[2]);
    AttrMap attrs = gradient.attrs;
    attrs["activation_mode"] = mode;
    context_.log.push_back(fmt::format("{}: {} and FusedBatchNormGradV3 in one", gradient.name, inner.type()));
    for (EditNode* before : inner.control_inputs) graph_.AddControlInput(gradient, *before);
    graph_.Become(gradient, kGradient, std::move(inputs), std::move(attrs));
  }

  GraphEditor& graph_;
  PassContext& context_;
};

}  // namespace

Status FuseNormalization(GraphEditor& graph, PassContext& context) {
  // With a budget, a separate activation is a cheap value to recompute.
  if (context.options.memory_budget_bytes > 0) return absl::OkStatus();
  NormalizationFusion fusion(graph, context);
  for (EditNode* node : graph.Nodes())
    if (!node->removed) fusion.Visit(*node);
  return absl::OkStatus();
}

}  // namespace rivulet
