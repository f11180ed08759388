// ReluGrad of MaxPoolGrad, where the pool's input is that Relu's output: one kernel writes the large tensor once. An
// element that is its window's maximum passes the gradient only where it is positive.
#include "engine/passes/pass.h"

namespace rivulet {

Status FusePooling(GraphEditor& graph, PassContext& context) {
  constexpr std::string_view kFused = "_MaxPoolReluGrad";
  for (EditNode* node : graph.Nodes()) {
    if (node->removed || node->fed || node->type() != "ReluGrad") continue;
    const Edge pool = node->inputs[0], features = node->inputs[1];
    if (pool.node->type() != "MaxPoolGrad" || pool.node->fed || !GraphEditor::OnlyUse(pool)) continue;
    if (pool.node->inputs[0] != features) continue;
    if (!GraphEditor::HasOp(kFused) ||
        !KernelRegistry::Global().IsRegisteredFor(kFused, context.kernels.device, features.dtype())) {
      continue;
    }
    context.log.push_back(fmt::format("{}: MaxPoolGrad and ReluGrad in one", node->name));
    for (EditNode* before : pool.node->control_inputs) graph.AddControlInput(*node, *before);
    graph.Become(*node, kFused, pool.node->inputs, pool.node->attrs);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
