// GroupNorm, InstanceNorm (one group per channel) and their gradients: sums over channels, joined to those of groups.
#include "engine/kernels/cpu/reduction/channel_layout.h"
#include "engine/kernels/cuda/channel_norm.h"
#include "engine/kernels/cuda/chunked_sums_launch.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

struct GroupNorm {
  ChannelShape shape;
  ChunkedSums sums;
  GroupNormArguments arguments;
  int64_t count;
  size_t sums_at, values_at;  // offsets in the scratch, after the partial sums

  size_t groups() const { return static_cast<size_t>(arguments.examples) * static_cast<size_t>(arguments.groups); }
};

StatusOr<GroupNorm> GroupNormOf(const NodeView& node, size_t x) {
  const Shape& shape = node.inputs[x].shape;
  ChannelLayout layout = ChannelLayoutOf(node, shape);
  // Without the axis of examples: rows count pixels if channels are last.
  layout.rows = 1;
  if (node.attr<std::string>("data_format").ends_with('C'))
    for (int axis = 1; axis < shape.rank() - 1; ++axis) layout.rows *= shape.dim(axis);
  const int64_t examples = shape.dim(0);
  const int64_t groups = node.node.HasAttr("num_groups") ? node.attr<int64_t>("num_groups") : layout.channels;
  if (groups < 1 || layout.channels % groups != 0)
    return InvalidArgument("{} channels cannot be divided into {} groups", layout.channels, groups);
  if (layout.elements() == 0 && examples > 0)
    return InvalidArgument("an example of {} has no elements to normalise", shape.ToString());
  const int64_t group_size = layout.channels / groups, pixels = layout.rows * layout.inner;
  GroupNorm g{};
  RIVULET_RETURN_IF_ERROR(CountOf(shape.elements()).status());
  g.count = shape.elements();
  g.shape = {static_cast<int32_t>(examples), Divider::Of(layout.channels), Divider::Of(layout.rows),
             Divider::Of(layout.inner), Divider::Of(group_size)};
  g.sums = ChunkedSums::Of(static_cast<int32_t>(examples * layout.channels), static_cast<int32_t>(pixels));
  g.sums_at = g.sums.bytes(2);
  g.values_at = g.sums_at + 2 * static_cast<size_t>(examples * layout.channels) * sizeof(double);
  g.arguments.examples = static_cast<int32_t>(examples);
  g.arguments.channels = static_cast<int32_t>(layout.channels);
  g.arguments.groups = static_cast<int32_t>(groups);
  g.arguments.group_size = static_cast<int32_t>(group_size);
  g.arguments.count = static_cast<double>(group_size * pixels);
  g.arguments.epsilon = static_cast<double>(node.attr<float>("epsilon"));
  return g;
}

template <typename T>
Status PutSums(const GpuContext& c, const GroupNorm& g, ChannelSumsArguments sums) {
  sums.shape = g.shape;
  sums.sums = g.sums;
  sums.sums.partial = SpanOf<uint64_t>(c.scratch);
  RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("channel_sums_{}", kTypeText<T>), sums));
  return JoinChunkedSums(c, sums.sums, 2, kTypeText<double>, SpanOf<void>(c.scratch, g.sums_at));
}

template <typename T>
StatusOr<Prepared> PrepareGroupNorm(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const GroupNorm g, GroupNormOf(node, 0));
  Prepared prepared = Launching(
      [g](const GpuContext& c) {
        if (g.count == 0) return absl::OkStatus();
        ChannelSumsArguments sums{};
        sums.x = InputOf<void>(c, 0);
        RIVULET_RETURN_IF_ERROR(PutSums<T>(c, g, sums));
        GroupNormArguments a = g.arguments;
        a.sums = SpanOf<const double>(c.scratch, g.sums_at);
        a.mean = OutputOf<void>(c, 1);
        a.inverse = OutputOf<void>(c, 2);
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("group_norm_statistics_{}", kTypeText<T>), a));
        ChannelWalkArguments walk{};
        walk.x = InputOf<void>(c, 0);
        walk.mean = SpanOf<const void>(c.outputs[1]);
        walk.factor = SpanOf<const void>(c.outputs[2]);
        walk.scale = InputOf<void>(c, 1);
        walk.offset = InputOf<void>(c, 2);
        walk.y = OutputOf<void>(c, 0);
        walk.count = g.count;
        walk.shape = g.shape;
        walk.times_scale = 1;
        return Put(c, fmt::format("channel_normalize_{}", kTypeText<T>), walk);
      },
      8.0 * static_cast<double>(g.count), {{0, 0}});
  prepared.scratch_bytes = g.values_at;
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareGroupNormGradient(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const GroupNorm g, GroupNormOf(node, 1));
  Prepared prepared = Launching(
      [g](const GpuContext& c) {
        ChannelSumsArguments sums{};
        sums.dy = InputOf<void>(c, 0);
        sums.x = InputOf<void>(c, 1);
        sums.mean = InputOf<void>(c, 3);
        if (g.count > 0) RIVULET_RETURN_IF_ERROR(PutSums<T>(c, g, sums));
        GroupNormArguments a = g.arguments;
        a.sums = SpanOf<const double>(c.scratch, g.sums_at);
        a.scale = InputOf<void>(c, 2);
        a.mean_in = InputOf<void>(c, 3);
        a.inverse_in = InputOf<void>(c, 4);
        a.q = SpanOf<void>(c.scratch, g.values_at);
        a.r = SpanOf<void>(c.scratch, g.values_at + g.groups() * sizeof(T));
        a.scale_grad = OutputOf<void>(c, 1);
        a.offset_grad = OutputOf<void>(c, 2);
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("group_norm_gradients_{}", kTypeText<T>), a));
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("group_norm_parameters_{}", kTypeText<T>), a));
        ChannelWalkArguments walk{};
        walk.dy = InputOf<void>(c, 0);
        walk.x = InputOf<void>(c, 1);
        walk.scale = InputOf<void>(c, 2);
        walk.mean = InputOf<void>(c, 3);
        walk.factor = InputOf<void>(c, 4);
        walk.q = SpanOf<const void>(c.scratch, g.values_at);
        walk.r = SpanOf<const void>(c.scratch, g.values_at + g.groups() * sizeof(T));
        walk.y = OutputOf<void>(c, 0);
        walk.count = g.count;
        walk.shape = g.shape;
        return Put(c, fmt::format("channel_gradient_{}", kTypeText<T>), walk);
      },
      9.0 * static_cast<double>(g.count), {{0, 0}, {1, 0}});
  prepared.scratch_bytes = g.values_at + 2 * g.groups() * sizeof(T);
  return prepared;
}

#define RIVULET_GPU_NORM(name)                                                        \
  RIVULET_KERNEL(name, Device::kCuda, float, PrepareGroupNorm<float>);                \
  RIVULET_KERNEL(name, Device::kCuda, double, PrepareGroupNorm<double>);              \
  RIVULET_KERNEL(name "Grad", Device::kCuda, float, PrepareGroupNormGradient<float>); \
  RIVULET_KERNEL(name "Grad", Device::kCuda, double, PrepareGroupNormGradient<double>);
RIVULET_GPU_NORM("GroupNorm")
RIVULET_GPU_NORM("InstanceNorm")

}  // namespace
}  // namespace rivulet::gpu
