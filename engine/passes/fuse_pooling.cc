// Fusion of max pools with the nodes before them.
//
// MaxPool of 2×2 after a _FusedConv2D without other readers becomes one kernel. It avoids writing and reading the
// convolution's output, which is four times as large as the pool's. This applies to evaluation: in training the pool's
// gradient reads that output to find the maxima.
//
// ReluGrad of MaxPoolGrad, if the pool's input is that Relu's output, becomes one kernel that writes the large tensor
// once. An element that is its window's maximum passes the gradient only if it is positive.
#include "engine/ops/window.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

// Only complete, adjacent windows.
bool HalvesBothAxes(const EditNode& pool) {
  const StatusOr<ImageWindow> window = PoolWindow(pool.attrs, pool.inputs[0].shape());
  if (!window.ok() || window->layout.channels_first) return false;
  const auto halves = [](const WindowAxis& axis) {
    return axis.window == 2 && axis.stride == 2 && axis.dilation == 1 && axis.pad_before == 0 &&
           axis.output == axis.input / 2;
  };
  return halves(window->height) && halves(window->width);
}

void FuseForward(GraphEditor& graph, EditNode& pool, PassContext& context) {
  constexpr std::string_view kFused = "_FusedConv2DMaxPool";
  const EditNode& convolution = *pool.inputs[0].node;
  if (convolution.type() != "_FusedConv2D" || convolution.fed || !GraphEditor::OnlyUse(pool.inputs[0])) return;
  const Device device = context.kernels.device;
  if (context.kernels.portable || !GraphEditor::HasOp(kFused) ||
      !KernelRegistry::Global().IsRegisteredFor(kFused, device, pool.inputs[0].dtype()))
    return;
  const auto* format = convolution.FindAttr<std::string>("data_format");
  if ((format != nullptr && *format != "NHWC") || !HalvesBothAxes(pool)) return;
  context.log.push_back(fmt::format("{}: _FusedConv2D and MaxPool in one", pool.name));
  for (EditNode* before : convolution.control_inputs) graph.AddControlInput(pool, *before);
  graph.Become(pool, kFused, convolution.inputs, convolution.attrs);
}

void FuseGradients(GraphEditor& graph, EditNode& relu, PassContext& context) {
  constexpr std::string_view kFused = "_MaxPoolReluGrad";
  const Edge pool = relu.inputs[0], features = relu.inputs[1];
  if (pool.node->type() != "MaxPoolGrad" || pool.node->fed || !GraphEditor::OnlyUse(pool)) return;
  if (pool.node->inputs[0] != features) return;
  if (!GraphEditor::HasOp(kFused) ||
      !KernelRegistry::Global().IsRegisteredFor(kFused, context.kernels.device, features.dtype()))
    return;
  context.log.push_back(fmt::format("{}: MaxPoolGrad and ReluGrad in one", relu.name));
  for (EditNode* before : pool.node->control_inputs) graph.AddControlInput(relu, *before);
  graph.Become(relu, kFused, pool.node->inputs, pool.node->attrs);
}

}  // namespace

Status FusePooling(GraphEditor& graph, PassContext& context) {
  for (EditNode* node : graph.Nodes()) {
    if (node->removed || node->fed) continue;
    if (node->type() == "MaxPool") FuseForward(graph, *node, context);
    if (node->type() == "ReluGrad") FuseGradients(graph, *node, context);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
