// Adapters of convolution.cu. Convolutions of separate channels are in depthwise.cc.
#include "engine/kernels/cuda/convolution.h"

#include "engine/kernels/cpu/convolution/window.h"
#include "engine/kernels/cuda/product_launch.h"

namespace rivulet::gpu {
namespace {

ConvolutionGeometry GeometryOf(const Window& w) {
  ConvolutionGeometry g{};
  g.in_height = static_cast<int32_t>(w.in_height);
  g.in_width = static_cast<int32_t>(w.in_width);
  g.pad_top = static_cast<int32_t>(w.pad_top);
  g.pad_left = static_cast<int32_t>(w.pad_left);
  g.step_height = static_cast<int32_t>(w.dilation_height);
  g.step_width = static_cast<int32_t>(w.dilation_width);
  g.stride_height = Divider::Of(w.stride_height);
  g.stride_width = Divider::Of(w.stride_width);
  g.in_channels = Divider::Of(w.in_channels);
  g.out_channels = Divider::Of(w.out_channels);
  g.width = Divider::Of(w.width);
  g.out_width = Divider::Of(w.out_width);
  g.out_height = Divider::Of(w.out_height);
  g.in_widths = Divider::Of(w.in_width);
  g.in_heights = Divider::Of(w.in_height);
  return g;
}

// The product of a convolution: the node's inputs that are its factors, and the sizes.
struct Problem {
  std::string_view kernel;
  size_t a, b;
  int64_t rows, columns, depth;
  FusedOps fused = {};
};

StatusOr<Prepared> PrepareProblem(const NodeView& node, const Window& w, const Problem& problem) {
  if (w.nchw) return Unimplemented("a convolution of NCHW images on a GPU; build the model with data_format NHWC");
  if (w.groups > 1)
    return Unimplemented("a convolution of {} groups on a GPU; there are those of one group, and depthwise ones",
                         w.groups);
  for (const int64_t elements : {w.in_elements(), w.out_elements(), w.filter_elements()})
    RIVULET_RETURN_IF_ERROR(CountOf(elements).status());
  ConvolutionArguments arguments{};
  arguments.rows = static_cast<int32_t>(problem.rows);
  arguments.columns = static_cast<int32_t>(problem.columns);
  RIVULET_ASSIGN_OR_RETURN(arguments.depth, CountOf(problem.depth));
  arguments.geometry = GeometryOf(w);
  arguments.epilogue.activation = ActivationOf(problem.fused.activation);
  const DType dtype = node.outputs[0].dtype;
  const Tile tile = TileFor(dtype, problem.rows, problem.columns);
  Prepared prepared = Launching(
      [arguments, a = problem.a, b = problem.b, bias = problem.fused.bias, kernel = problem.kernel,
       dtype](const GpuContext& context) {
        ConvolutionArguments c = arguments;
        c.a = InputOf<void>(context, a);
        c.b = InputOf<void>(context, b);
        c.c = OutputOf<void>(context, 0);
        if (bias) c.epilogue.bias = InputOf<void>(context, 2);
        c.chunks.partial = SpanOf<void>(context.scratch);
        return PutConvolution(context, kernel, dtype, c);
      },
      2.0 * w.multiply_adds());
  prepared.scratch_bytes =
      PartialBytes(ChunksFor(tile, problem.rows, problem.columns, problem.depth), dtype, problem.rows, problem.columns);
  prepared.implementation = fmt::format("cuda {}", tile.name);
  return prepared;
}

StatusOr<Prepared> PrepareForward(const NodeView& node, const FusedOps& fused) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.inputs[0].shape, node.inputs[1].shape, node.outputs[0].shape));
  if (fused.bias && (node.inputs.size() != 3 || node.inputs[2].shape != Shape({w.out_channels})))
    return InvalidArgument("BiasAdd needs one arg, a bias of {} channels", w.out_channels);
  return PrepareProblem(node, w,
                        {"convolution", 0, 1, w.batch * w.out_height * w.out_width, w.out_channels,
                         w.height * w.width * w.in_channels, fused});
}
StatusOr<Prepared> PrepareConvolution(const NodeView& node, const KernelPolicy&) { return PrepareForward(node, {}); }
StatusOr<Prepared> PrepareFused(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const FusedOps fused, FusedOpsOf(node.node.attrs()));
  return PrepareForward(node, fused);
}

// Input 0 is a size, which repeats the shapes.
StatusOr<Prepared> PrepareInputGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.outputs[0].shape, node.inputs[1].shape, node.inputs[2].shape));
  return PrepareProblem(node, w,
                        {"convolution_input", 2, 1, w.batch * w.in_height * w.in_width, w.in_channels,
                         w.height * w.width * w.out_channels});
}

StatusOr<Prepared> PrepareFilterGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Window w,
                           ConvWindow(node, node.inputs[0].shape, node.outputs[0].shape, node.inputs[2].shape));
  return PrepareProblem(node, w,
                        {"convolution_filter", 0, 2, w.height * w.width * w.in_channels, w.out_channels,
                         w.batch * w.out_height * w.out_width});
}

#define RIVULET_GPU_CONVOLUTION(T)                                               \
  RIVULET_KERNEL("Conv2D", Device::kCuda, T, PrepareConvolution);                \
  RIVULET_KERNEL("_FusedConv2D", Device::kCuda, T, PrepareFused);                \
  RIVULET_KERNEL("Conv2DBackpropInput", Device::kCuda, T, PrepareInputGradient); \
  RIVULET_KERNEL("Conv2DBackpropFilter", Device::kCuda, T, PrepareFilterGradient)
RIVULET_GPU_CONVOLUTION(float);
RIVULET_GPU_CONVOLUTION(double);

}  // namespace

Status PutConvolution(const GpuContext& context, std::string_view kernel, DType dtype, ConvolutionArguments c) {
  if (c.rows == 0 || c.columns == 0) return absl::OkStatus();
  const Tile tile = Divide(dtype, /*one=*/true, c);
  const bool dense = c.geometry.stride_height.divisor == 1 && c.geometry.stride_width.divisor == 1;
  if (kernel == "convolution_input" && dense) kernel = "convolution_input_dense";
  RIVULET_RETURN_IF_ERROR(Put(context, fmt::format("{}_{}_{}", kernel, ArithmeticOf(context, dtype), tile.name), c));
  if (c.chunks.count.divisor == 1) return absl::OkStatus();
  return JoinChunks(context, c.chunks, dtype, c.rows, c.columns, c.c, c.columns, c.epilogue);
}

}  // namespace rivulet::gpu
