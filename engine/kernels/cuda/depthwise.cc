// Adapters of depthwise.cu.
#include "engine/kernels/cuda/depthwise.h"

#include "engine/kernels/cpu/convolution/window.h"
#include "engine/kernels/cuda/chunked_sums_launch.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

StatusOr<DepthwiseArguments> ArgumentsOf(const Window& w) {
  if (w.nchw)
    return Unimplemented("a depthwise convolution of NCHW images on a GPU; build the model with data_format NHWC");
  for (const int64_t elements : {w.in_elements(), w.out_elements(), w.filter_elements()})
    RIVULET_RETURN_IF_ERROR(CountOf(elements).status());
  DepthwiseArguments a{};
  a.height = static_cast<int32_t>(w.height);
  a.width = static_cast<int32_t>(w.width);
  a.pad_top = static_cast<int32_t>(w.pad_top);
  a.pad_left = static_cast<int32_t>(w.pad_left);
  a.step_height = static_cast<int32_t>(w.dilation_height);
  a.step_width = static_cast<int32_t>(w.dilation_width);
  a.stride_height = Divider::Of(w.stride_height);
  a.stride_width = Divider::Of(w.stride_width);
  a.multiplier = Divider::Of(w.in_channels == 0 ? 1 : w.out_channels / w.in_channels);
  a.in_height = Divider::Of(w.in_height);
  a.in_width = Divider::Of(w.in_width);
  a.in_channels = Divider::Of(w.in_channels);
  a.out_height = Divider::Of(w.out_height);
  a.out_width = Divider::Of(w.out_width);
  a.out_channels = Divider::Of(w.out_channels);
  return a;
}

// Each thread computes an element of the result; `a` and `b` are inputs of the node.
template <typename T>
Prepared ByElement(const DepthwiseArguments& arguments, std::string_view kernel, size_t a, size_t b, double flops) {
  return Launching(
      [arguments, a, b, kernel = fmt::format("{}_{}", kernel, kTypeText<T>)](const GpuContext& context) {
        DepthwiseArguments d = arguments;
        d.a = InputOf<void>(context, a);
        d.b = InputOf<void>(context, b);
        d.y = OutputOf<void>(context, 0);
        return Put(context, kernel, d);
      },
      flops);
}

template <typename T>
StatusOr<Prepared> PrepareDepthwise(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.inputs[0].shape, node.inputs[1].shape, node.outputs[0].shape, true));
  RIVULET_ASSIGN_OR_RETURN(DepthwiseArguments arguments, ArgumentsOf(w));
  arguments.count = w.out_elements();
  return ByElement<T>(arguments, "depthwise", 0, 1, 2 * w.multiply_adds());
}

template <typename T>
StatusOr<Prepared> PrepareInputGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.outputs[0].shape, node.inputs[1].shape, node.inputs[2].shape, true));
  RIVULET_ASSIGN_OR_RETURN(DepthwiseArguments arguments, ArgumentsOf(w));
  arguments.count = w.in_elements();
  return ByElement<T>(arguments, "depthwise_input", 2, 1, 2 * w.multiply_adds());
}

template <typename T>
StatusOr<Prepared> PrepareFilterGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.inputs[0].shape, node.outputs[0].shape, node.inputs[2].shape, true));
  RIVULET_ASSIGN_OR_RETURN(DepthwiseArguments arguments, ArgumentsOf(w));
  arguments.sums = ChunkedSums::Of(static_cast<int32_t>(w.height * w.width * w.out_channels),
                                   static_cast<int32_t>(w.batch * w.out_height * w.out_width));
  Prepared prepared = Launching(
      [arguments](const GpuContext& context) {
        if (arguments.sums.results == 0) return absl::OkStatus();
        DepthwiseArguments d = arguments;
        d.a = InputOf<void>(context, 0);
        d.b = InputOf<void>(context, 2);
        d.sums.partial = SpanOf<uint64_t>(context.scratch);
        RIVULET_RETURN_IF_ERROR(Put(context, fmt::format("depthwise_filter_{}", kTypeText<T>), d));
        return JoinChunkedSums(context, d.sums, 1, kTypeText<T>, OutputOf<void>(context, 0));
      },
      2 * w.multiply_adds());
  prepared.scratch_bytes = arguments.sums.bytes(1);
  return prepared;
}

#define RIVULET_GPU_DEPTHWISE(T)                                                                   \
  RIVULET_KERNEL("DepthwiseConv2dNative", Device::kCuda, T, PrepareDepthwise<T>);                  \
  RIVULET_KERNEL("DepthwiseConv2dNativeBackpropInput", Device::kCuda, T, PrepareInputGradient<T>); \
  RIVULET_KERNEL("DepthwiseConv2dNativeBackpropFilter", Device::kCuda, T, PrepareFilterGradient<T>)
RIVULET_GPU_DEPTHWISE(float);
RIVULET_GPU_DEPTHWISE(double);

}  // namespace
}  // namespace rivulet::gpu
