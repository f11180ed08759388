// Adapters of layer_norm.cu.
#include "engine/kernels/cuda/layer_norm.h"

#include "engine/kernels/cuda/chunked_sums_launch.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

// The number of rows is the product of the axes before begin_norm_axis.
StatusOr<LayerNormArguments> ArgumentsOf(const NodeView& node, const Shape& x, bool centered) {
  const int64_t begin = node.attr<int64_t>("begin_norm_axis");
  const int axis = static_cast<int>(begin < 0 ? begin + x.rank() : begin);
  int64_t rows = 1, width = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows : width) *= x.dim(i);
  if (width == 0) return InvalidArgument("the axes of {} to normalise over are empty", x.ToString());
  RIVULET_RETURN_IF_ERROR(CountOf(x.elements()).status());
  LayerNormArguments a{};
  a.rows = static_cast<int32_t>(rows);
  a.width = static_cast<int32_t>(width);
  a.centered = centered ? 1 : 0;
  a.epsilon = static_cast<double>(node.attr<float>("epsilon"));
  return a;
}

// Outputs y, mean (LayerNorm only), inverse deviation.
template <bool kCentered, typename T>
StatusOr<Prepared> PrepareNorm(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const LayerNormArguments arguments, ArgumentsOf(node, shape, kCentered));
  return Launching(
      [arguments](const GpuContext& c) {
        LayerNormArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.scale = InputOf<void>(c, 1);
        if (kCentered) a.offset = InputOf<void>(c, 2);
        a.y = OutputOf<void>(c, 0);
        if (kCentered) a.mean = OutputOf<void>(c, 1);
        a.inverse = OutputOf<void>(c, kCentered ? 2 : 1);
        return a.rows == 0 ? absl::OkStatus() : Put(c, fmt::format("layer_norm_{}", kTypeText<T>), a);
      },
      8.0 * static_cast<double>(shape.elements()), {{0, 0}});
}

// Inputs dy, x, scale, mean (LayerNorm only), inverse; outputs dx, scale's gradient, offset's (LayerNorm only). The
// parameters' sums are computed first, because dx may be written over dy or x.
template <bool kCentered, typename T>
StatusOr<Prepared> PrepareNormGrad(const NodeView& node, const KernelPolicy&) {
  const Shape& shape = node.inputs[1].shape;
  RIVULET_ASSIGN_OR_RETURN(LayerNormArguments arguments, ArgumentsOf(node, shape, kCentered));
  arguments.sums = ChunkedSums::Of(arguments.width, arguments.rows);
  Prepared prepared = Launching(
      [arguments](const GpuContext& c) {
        LayerNormArguments a = arguments;
        a.dy = InputOf<void>(c, 0);
        a.x = InputOf<void>(c, 1);
        a.scale = InputOf<void>(c, 2);
        if (kCentered) a.mean_in = InputOf<void>(c, 3);
        a.inverse_in = InputOf<void>(c, kCentered ? 4 : 3);
        a.y = OutputOf<void>(c, 0);
        a.sums.partial = SpanOf<uint64_t>(c.scratch);
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("layer_norm_parameters_{}", kTypeText<T>), a));
        RIVULET_RETURN_IF_ERROR(JoinChunkedSums(c, a.sums, 1, kTypeText<T>, OutputOf<void>(c, 1)));
        if (kCentered) {
          ChunkedSums second = a.sums;
          second.partial = SpanOf<uint64_t>(c.scratch, a.sums.bytes(1));
          RIVULET_RETURN_IF_ERROR(JoinChunkedSums(c, second, 1, kTypeText<T>, OutputOf<void>(c, 2)));
        }
        return a.rows == 0 ? absl::OkStatus() : Put(c, fmt::format("layer_norm_grad_{}", kTypeText<T>), a);
      },
      14.0 * static_cast<double>(shape.elements()), {{0, 0}, {1, 0}});
  prepared.scratch_bytes = arguments.sums.bytes(2);
  return prepared;
}

#define RIVULET_GPU_LAYER_NORM(T)                                                \
  RIVULET_KERNEL("LayerNorm", Device::kCuda, T, (PrepareNorm<true, T>));         \
  RIVULET_KERNEL("RmsNorm", Device::kCuda, T, (PrepareNorm<false, T>));          \
  RIVULET_KERNEL("LayerNormGrad", Device::kCuda, T, (PrepareNormGrad<true, T>)); \
  RIVULET_KERNEL("RmsNormGrad", Device::kCuda, T, (PrepareNormGrad<false, T>))
RIVULET_GPU_LAYER_NORM(float);
RIVULET_GPU_LAYER_NORM(double);

}  // namespace
}  // namespace rivulet::gpu
