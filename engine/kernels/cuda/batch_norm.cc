// FusedBatchNormV3 and its gradient: sums over channels, statistics per channel, one pass over the elements.
#include "engine/kernels/cpu/reduction/channel_layout.h"
#include "engine/kernels/cuda/channel_norm.h"
#include "engine/kernels/cuda/chunked_sums_launch.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

struct BatchNorm {
  ChannelShape shape;
  ChunkedSums sums;
  BatchNormArguments arguments;
  int32_t channels;
  int64_t count;
  size_t sums_at, values_at;  // offsets in the scratch, after the partial sums

  size_t scratch_bytes(size_t element) const { return values_at + 3 * static_cast<size_t>(channels) * element; }
};

StatusOr<BatchNorm> BatchNormOf(const NodeView& node, size_t x) {
  for (const TensorSpec& input : node.inputs)
    if (input.dtype != node.inputs[0].dtype)
      return Unimplemented("statistics of {} for an input of {}", Name(input.dtype), Name(node.inputs[0].dtype));
  const ChannelLayout layout = ChannelLayoutOf(node, node.inputs[x].shape);
  BatchNorm b{};
  RIVULET_RETURN_IF_ERROR(CountOf(layout.elements()).status());
  b.channels = static_cast<int32_t>(layout.channels);
  b.count = layout.elements();
  b.shape = {1, Divider::Of(layout.channels), Divider::Of(layout.rows), Divider::Of(layout.inner), Divider::Of(1)};
  b.sums = ChunkedSums::Of(b.channels, static_cast<int32_t>(layout.rows * layout.inner));
  b.sums_at = b.sums.bytes(2);
  b.values_at = b.sums_at + 2 * static_cast<size_t>(b.channels) * sizeof(double);
  b.arguments.channels = b.channels;
  b.arguments.count = static_cast<double>(layout.rows * layout.inner);
  b.arguments.epsilon = static_cast<double>(node.attr<float>("epsilon"));
  b.arguments.training = node.attr<bool>("is_training") ? 1 : 0;
  b.arguments.average_factor =
      node.node.HasAttr("exponential_avg_factor") ? static_cast<double>(node.attr<float>("exponential_avg_factor")) : 1;
  return b;
}

Status CheckChannels(const NodeView& node, size_t first, const BatchNorm& b, bool may_be_left_out) {
  const Shape channels({b.channels});
  for (size_t i = first; i < 5; ++i) {
    const bool unused = may_be_left_out && i > 2;
    if (node.inputs[i].shape != channels && !(unused && node.inputs[i].shape == Shape({0})))
      return InvalidArgument("input {} is {}; one value for each of {} channels is needed", i,
                             node.inputs[i].shape.ToString(), b.channels);
  }
  return absl::OkStatus();
}

// Computes sums of x, or of a gradient, where the statistics kernels read them.
template <typename T>
Status PutSums(const GpuContext& c, const BatchNorm& b, ChannelSumsArguments sums) {
  sums.shape = b.shape;
  sums.sums = b.sums;
  sums.sums.partial = SpanOf<uint64_t>(c.scratch);
  RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("channel_sums_{}", kTypeText<T>), sums));
  return JoinChunkedSums(c, sums.sums, 2, kTypeText<double>, SpanOf<void>(c.scratch, b.sums_at));
}

template <typename T>
StatusOr<Prepared> PrepareBatchNorm(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const BatchNorm b, BatchNormOf(node, 0));
  const bool given = b.arguments.training == 0 || b.arguments.average_factor != 1;
  RIVULET_RETURN_IF_ERROR(CheckChannels(node, 1, b, !given));
  Prepared prepared = Launching(
      [b](const GpuContext& c) {
        if (b.channels == 0) return absl::OkStatus();
        if (b.arguments.training != 0) {
          ChannelSumsArguments sums{};
          sums.x = InputOf<void>(c, 0);
          RIVULET_RETURN_IF_ERROR(PutSums<T>(c, b, sums));
        }
        BatchNormArguments a = b.arguments;
        a.sums = SpanOf<const double>(c.scratch, b.sums_at);
        a.scale = InputOf<void>(c, 1);
        a.mean_in = InputOf<void>(c, 3);
        a.variance_in = InputOf<void>(c, 4);
        a.average_mean = OutputOf<void>(c, 1);
        a.average_variance = OutputOf<void>(c, 2);
        a.mean = OutputOf<void>(c, 3);
        a.variance = OutputOf<void>(c, 4);
        a.factor = SpanOf<void>(c.scratch, b.values_at);
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("batch_norm_statistics_{}", kTypeText<T>), a));
        ChannelWalkArguments walk{};
        walk.x = InputOf<void>(c, 0);
        walk.mean = SpanOf<const void>(c.outputs[3]);
        walk.factor = SpanOf<const void>(c.scratch, b.values_at);
        walk.scale = InputOf<void>(c, 1);
        walk.offset = InputOf<void>(c, 2);
        walk.y = OutputOf<void>(c, 0);
        walk.count = b.count;
        walk.shape = b.shape;
        return Put(c, fmt::format("channel_normalize_{}", kTypeText<T>), walk);
      },
      8.0 * static_cast<double>(b.count), {{0, 0}});
  prepared.scratch_bytes = b.scratch_bytes(sizeof(T));
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareBatchNormGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const BatchNorm b, BatchNormOf(node, 1));
  if (node.inputs[0].shape != node.inputs[1].shape)
    return InvalidArgument("y_backprop {} and x {} differ in shape", node.inputs[0].shape.ToString(),
                           node.inputs[1].shape.ToString());
  RIVULET_RETURN_IF_ERROR(CheckChannels(node, 2, b, false));
  Prepared prepared = Launching(
      [b](const GpuContext& c) {
        if (b.channels == 0) return absl::OkStatus();
        const auto value = [&](size_t i) { return b.values_at + i * static_cast<size_t>(b.channels) * sizeof(T); };
        ChannelSumsArguments sums{};
        sums.dy = InputOf<void>(c, 0);
        sums.x = InputOf<void>(c, 1);
        sums.mean = InputOf<void>(c, 3);
        RIVULET_RETURN_IF_ERROR(PutSums<T>(c, b, sums));
        BatchNormArguments a = b.arguments;
        a.sums = SpanOf<const double>(c.scratch, b.sums_at);
        a.scale = InputOf<void>(c, 2);
        a.variance_in = InputOf<void>(c, 4);
        a.scale_grad = OutputOf<void>(c, 1);
        a.offset_grad = OutputOf<void>(c, 2);
        a.reserve3 = OutputOf<void>(c, 3);
        a.reserve4 = OutputOf<void>(c, 4);
        a.factor = SpanOf<void>(c.scratch, value(0));
        a.q = SpanOf<void>(c.scratch, value(1));
        a.r = SpanOf<void>(c.scratch, value(2));
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("batch_norm_gradients_{}", kTypeText<T>), a));
        ChannelWalkArguments walk{};
        walk.dy = InputOf<void>(c, 0);
        walk.x = InputOf<void>(c, 1);
        walk.mean = InputOf<void>(c, 3);
        walk.factor = SpanOf<const void>(c.scratch, value(0));
        if (b.arguments.training != 0) {
          walk.q = SpanOf<const void>(c.scratch, value(1));
          walk.r = SpanOf<const void>(c.scratch, value(2));
        }
        walk.y = OutputOf<void>(c, 0);
        walk.count = b.count;
        walk.shape = b.shape;
        return Put(c, fmt::format("channel_gradient_{}", kTypeText<T>), walk);
      },
      9.0 * static_cast<double>(b.count), {{0, 0}, {1, 0}});
  prepared.scratch_bytes = b.scratch_bytes(sizeof(T));
  return prepared;
}

RIVULET_KERNEL("FusedBatchNormV3", Device::kCuda, float, PrepareBatchNorm<float>);
RIVULET_KERNEL("FusedBatchNormV3", Device::kCuda, double, PrepareBatchNorm<double>);
RIVULET_KERNEL("FusedBatchNormGradV3", Device::kCuda, float, PrepareBatchNormGradient<float>);
RIVULET_KERNEL("FusedBatchNormGradV3", Device::kCuda, double, PrepareBatchNormGradient<double>);

}  // namespace
}  // namespace rivulet::gpu
