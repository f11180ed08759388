// Adapters of pooling.cu.
#include "engine/kernels/cuda/pooling.h"

#include "engine/kernels/cpu/convolution/pooling_plan.h"
#include "engine/kernels/cuda/launch.h"
#include "engine/ops/window.h"

namespace rivulet::gpu {
namespace {

PoolAxis PoolAxisOf(const WindowAxis& axis, bool count_padding) {
  PoolAxis a{};
  a.input = Divider::Of(axis.input);
  a.output = Divider::Of(axis.output);
  a.stride = Divider::Of(axis.stride);
  a.window = static_cast<int32_t>(axis.window);
  a.dilation = static_cast<int32_t>(axis.dilation);
  a.pad_before = static_cast<int32_t>(axis.pad_before);
  a.counted_begin = count_padding ? -a.pad_before : 0;
  a.counted_end = static_cast<int32_t>(axis.input + (count_padding ? axis.pad_after : 0));
  return a;
}

// `image` and `pooled` are the shapes before and after; the inputs are indices in the node's, or -1.
struct PoolProblem {
  std::string_view kernel;
  const Shape& image;
  const Shape& pooled;
  int image_input, pooled_input, gradient_input;
  bool of_relu = false;
};

template <typename T>
StatusOr<Prepared> PreparePool(const NodeView& node, const PoolProblem& problem) {
  // Checks that shapes match and that no window is completely in the padding.
  RIVULET_ASSIGN_OR_RETURN(const PoolPlan plan, MakePoolPlan(node, problem.image, problem.pooled));
  if (plan.nchw) return Unimplemented("a pool of NCHW images on a GPU; build the model with data_format NHWC");
  RIVULET_ASSIGN_OR_RETURN(const ImageWindow window, PoolWindow(node.node.attrs(), problem.image));
  if (problem.gradient_input >= 0) {
    const Shape& gradient = node.inputs[static_cast<size_t>(problem.gradient_input)].shape;
    if (gradient != problem.pooled)
      return InvalidArgument("grad of {} does not fit a pool of {}", gradient.ToString(), problem.image.ToString());
  }
  RIVULET_RETURN_IF_ERROR(CountOf(plan.in_elements()).status());
  PoolArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  const bool* include = node.node.FindAttr<bool>("_count_include_pad");
  const bool count_padding = include != nullptr && *include && node.node.type().starts_with("AvgPool");
  arguments.height = PoolAxisOf(window.height, count_padding);
  arguments.width = PoolAxisOf(window.width, count_padding);
  arguments.channels = Divider::Of(plan.channels);
  arguments.of_relu = problem.of_relu ? 1 : 0;
  return Launching(
      [arguments, kernel = fmt::format("{}_{}", problem.kernel, kTypeText<T>), image = problem.image_input,
       pooled = problem.pooled_input, gradient = problem.gradient_input](const GpuContext& c) {
        PoolArguments a = arguments;
        if (image >= 0) a.image = InputOf<void>(c, static_cast<size_t>(image));
        if (pooled >= 0) a.pooled = InputOf<void>(c, static_cast<size_t>(pooled));
        if (gradient >= 0) a.gradient = InputOf<void>(c, static_cast<size_t>(gradient));
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      },
      static_cast<double>(arguments.count) * static_cast<double>(window.height.window * window.width.window));
}

template <typename T>
StatusOr<Prepared> PrepareMaxPool(const NodeView& node, const KernelPolicy&) {
  return PreparePool<T>(node, {"max_pool", node.inputs[0].shape, node.outputs[0].shape, 0, -1, -1});
}
template <typename T>
StatusOr<Prepared> PrepareAvgPool(const NodeView& node, const KernelPolicy&) {
  return PreparePool<T>(node, {"avg_pool", node.inputs[0].shape, node.outputs[0].shape, 0, -1, -1});
}
template <typename T, bool kOfRelu>
StatusOr<Prepared> PrepareMaxPoolGrad(const NodeView& node, const KernelPolicy&) {
  return PreparePool<T>(node, {"max_pool_grad", node.inputs[0].shape, node.inputs[1].shape, 0, 1, 2, kOfRelu});
}
// Input 0 is a size, which repeats the shapes.
template <typename T>
StatusOr<Prepared> PrepareAvgPoolGrad(const NodeView& node, const KernelPolicy&) {
  return PreparePool<T>(node, {"avg_pool_grad", node.outputs[0].shape, node.inputs[1].shape, -1, -1, 1});
}

#define RIVULET_GPU_POOLS(T)                                                           \
  RIVULET_KERNEL("MaxPool", Device::kCuda, T, PrepareMaxPool<T>);                      \
  RIVULET_KERNEL("MaxPoolGrad", Device::kCuda, T, (PrepareMaxPoolGrad<T, false>));     \
  RIVULET_KERNEL("_MaxPoolReluGrad", Device::kCuda, T, (PrepareMaxPoolGrad<T, true>)); \
  RIVULET_KERNEL("AvgPool", Device::kCuda, T, PrepareAvgPool<T>);                      \
  RIVULET_KERNEL("AvgPoolGrad", Device::kCuda, T, PrepareAvgPoolGrad<T>)
RIVULET_GPU_POOLS(float);
RIVULET_GPU_POOLS(double);

}  // namespace
}  // namespace rivulet::gpu
