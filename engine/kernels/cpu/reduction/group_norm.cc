// GroupNorm, InstanceNorm (one group per channel) and their gradients: example by example, with statistics per channel
// that are joined to those of groups.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/reduction/channel_layout.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

struct Groups {
  int64_t examples = 1, groups = 1, group_size = 1;
  ChannelLayout layout;  // of one example
  double epsilon = 0;
  double count() const { return static_cast<double>(group_size * layout.rows * layout.inner); }
};

// Arrays over channels in a kernel's scratch: `doubles`, then `values`, then two for ChannelMoments.
template <typename T, size_t kDoubles, size_t kValues>
struct GroupScratch {
  static size_t Bytes(int64_t channels) {
    return static_cast<size_t>(channels) * (kDoubles * sizeof(double) + (kValues + 2) * sizeof(T));
  }
  GroupScratch(std::byte* memory, int64_t channels) {
    double* next = As<double>(memory);
    for (double*& array : doubles) array = std::exchange(next, next + channels);
    T* next_value = reinterpret_cast<T*>(next);
    for (T*& array : values) array = std::exchange(next_value, next_value + channels);
    sums = next_value;
  }
  double* doubles[kDoubles];
  T* values[kValues];
  T* sums;
};

template <typename T>
class GroupNormKernel final : public Kernel {
 public:
  static constexpr auto kScratchBytes = &GroupScratch<T, 2, 2>::Bytes;
  explicit GroupNormKernel(const Groups& groups) : g_(groups) {}
  Status Run(const KernelContext& context) const override {
    const int64_t channels = g_.layout.channels;
    const T *x = InputOf<T>(context, 0), *scale = InputOf<T>(context, 1), *offset = InputOf<T>(context, 2);
    T *y = OutputOf<T>(context, 0), *mean = OutputOf<T>(context, 1), *inverse = OutputOf<T>(context, 2);
    const GroupScratch<T, 2, 2> scratch(context.scratch, channels);
    const auto [channel_mean, squares] = scratch.doubles;
    const auto [means, factors] = scratch.values;
    const double size = static_cast<double>(g_.group_size), pixels = g_.count() / size;
    for (int64_t example = 0; example < g_.examples; ++example) {
      ChannelMoments(x, g_.layout, channel_mean, squares, scratch.sums);
      for (int64_t group = 0; group < g_.groups; ++group, ++mean, ++inverse) {
        const int64_t begin = group * g_.group_size, end = begin + g_.group_size;
        double group_mean = 0, group_squares = 0;
        for (int64_t c = begin; c < end; ++c) group_mean += channel_mean[c];
        group_mean /= size;
        for (int64_t c = begin; c < end; ++c) {
          const double distance = channel_mean[c] - group_mean;
          group_squares += squares[c] + distance * distance * pixels;
        }
        *mean = static_cast<T>(group_mean);
        *inverse = static_cast<T>(1.0 / std::sqrt(group_squares / g_.count() + g_.epsilon));
        for (int64_t c = begin; c < end; ++c) {
          means[c] = *mean;
          factors[c] = *inverse * scale[c];
        }
      }
      ChannelNormalize<T>(x, means, factors, offset, nullptr, g_.layout, y);
      x += g_.layout.elements();
      y += g_.layout.elements();
    }
    return absl::OkStatus();
  }

 private:
  Groups g_;
};

template <typename T>
class GroupNormGradKernel final : public Kernel {
 public:
  static constexpr auto kScratchBytes = &GroupScratch<T, 4, 4>::Bytes;
  explicit GroupNormGradKernel(const Groups& groups) : g_(groups) {}
  Status Run(const KernelContext& context) const override {
    const int64_t channels = g_.layout.channels;
    const T *dy = InputOf<T>(context, 0), *x = InputOf<T>(context, 1), *scale = InputOf<T>(context, 2);
    const T *mean = InputOf<T>(context, 3), *inverse = InputOf<T>(context, 4);
    T* dx = OutputOf<T>(context, 0);
    const GroupScratch<T, 4, 4> scratch(context.scratch, channels);
    const auto [sum_dy, sum_dy_x, offset_total, scale_total] = scratch.doubles;
    const auto [means, factors, q, r] = scratch.values;
    std::fill_n(offset_total, channels, 0.0);
    std::fill_n(scale_total, channels, 0.0);
    for (int64_t example = 0; example < g_.examples; ++example) {
      for (int64_t c = 0; c < channels; ++c) means[c] = mean[c / g_.group_size];
      ChannelGradientSums<T>(dy, x, means, {}, g_.layout, sum_dy, sum_dy_x, scratch.sums);
      for (int64_t group = 0; group < g_.groups; ++group) {
        const int64_t begin = group * g_.group_size, end = begin + g_.group_size;
        const double factor = static_cast<double>(inverse[group]);
        double of_dy = 0, of_dy_x = 0;
        for (int64_t c = begin; c < end; ++c) {
          offset_total[c] += sum_dy[c];
          scale_total[c] += sum_dy_x[c] * factor;
          of_dy += sum_dy[c] * static_cast<double>(scale[c]);
          of_dy_x += sum_dy_x[c] * static_cast<double>(scale[c]);
        }
        for (int64_t c = begin; c < end; ++c) {
          factors[c] = inverse[group];
          q[c] = static_cast<T>(of_dy / g_.count());
          r[c] = static_cast<T>(factor * factor * (of_dy_x / g_.count()));
        }
      }
      ChannelNormalizeGradient<T>(dy, x, {means, scale, q, r, factors}, {}, g_.layout, dx);
      const int64_t elements = g_.layout.elements();
      dy += elements;
      x += elements;
      dx += elements;
      mean += g_.groups;
      inverse += g_.groups;
    }
    for (int64_t c = 0; c < channels; ++c) {
      OutputOf<T>(context, 1)[c] = static_cast<T>(scale_total[c]);
      OutputOf<T>(context, 2)[c] = static_cast<T>(offset_total[c]);
    }
    return absl::OkStatus();
  }

 private:
  Groups g_;
};

template <typename NormKernel>
StatusOr<Prepared> PrepareGroups(const NodeView& node, size_t x, std::vector<std::pair<int, int>> in_place) {
  const Shape& shape = node.inputs[x].shape;
  Groups groups;
  groups.layout = ChannelLayoutOf(node, shape);
  groups.examples = shape.dim(0);
  // Without the axis of examples: rows count pixels if channels are last.
  groups.layout.rows = 1;
  if (node.attr<std::string>("data_format").ends_with('C'))
    for (int axis = 1; axis < shape.rank() - 1; ++axis) groups.layout.rows *= shape.dim(axis);
  groups.groups = node.node.HasAttr("num_groups") ? node.attr<int64_t>("num_groups") : groups.layout.channels;
  if (groups.groups < 1 || groups.layout.channels % groups.groups != 0)
    return InvalidArgument("{} channels cannot be divided into {} groups", groups.layout.channels, groups.groups);
  groups.group_size = groups.layout.channels / groups.groups;
  if (groups.layout.elements() == 0 && groups.examples > 0)
    return InvalidArgument("an example of {} has no elements to normalise", shape.ToString());
  groups.epsilon = static_cast<double>(node.attr<float>("epsilon"));
  Prepared prepared;
  prepared.kernel = std::make_unique<NormKernel>(groups);
  prepared.scratch_bytes = NormKernel::kScratchBytes(groups.layout.channels);
  prepared.in_place = std::move(in_place);
  prepared.implementation = "hwy";
  prepared.flops = 8.0 * static_cast<double>(shape.elements());
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareGroupNorm(const NodeView& node, const KernelPolicy&) {
  return PrepareGroups<GroupNormKernel<T>>(node, 0, {{0, 0}});
}
template <typename T>
StatusOr<Prepared> PrepareGroupNormGrad(const NodeView& node, const KernelPolicy&) {
  return PrepareGroups<GroupNormGradKernel<T>>(node, 1, {{0, 0}, {1, 0}});
}

#define RIVULET_NORM_KERNELS(name)                                               \
  RIVULET_KERNEL(name, Device::kCpu, float, PrepareGroupNorm<float>);            \
  RIVULET_KERNEL(name, Device::kCpu, double, PrepareGroupNorm<double>);          \
  RIVULET_KERNEL(name "Grad", Device::kCpu, float, PrepareGroupNormGrad<float>); \
  RIVULET_KERNEL(name "Grad", Device::kCpu, double, PrepareGroupNormGrad<double>);
RIVULET_NORM_KERNELS("GroupNorm")
RIVULET_NORM_KERNELS("InstanceNorm")

}  // namespace
}  // namespace rivulet
