// Conv3D, MaxPool3D, AvgPool3D and their gradients: plain loops in one order on every machine.
#include <algorithm>

#include "engine/ops/volume_window.h"
#include "engine/program/kernel.h"

namespace rivulet {
namespace {

// One of the two tensors: strides in elements.
struct Layout {
  std::array<int64_t, 3> dims{};
  int64_t channels = 0, image = 0, pixel = 0, channel = 0;
  Layout() = default;
  Layout(const Shape& shape, const VolumeWindow& window) {
    for (int i = 0; i < 3; ++i) dims[static_cast<size_t>(i)] = shape.dim(window.spatial_axis(i));
    channels = shape.dim(window.channel_axis());
    const int64_t pixels = dims[0] * dims[1] * dims[2];
    image = pixels * channels;
    pixel = window.channels_first ? 1 : channels;
    channel = window.channels_first ? pixels : 1;
  }
  int64_t At(int64_t b, int64_t z, int64_t y, int64_t x) const {
    return b * image + ((z * dims[1] + y) * dims[2] + x) * pixel;
  }
};

struct Volume {
  VolumeWindow window;
  int64_t batch = 0;
  Layout in, out;

  // Calls f(output offset, input offset, tap) for every pair of pixels that a tap connects; `each` before a window's
  // first.
  template <typename Each, typename F>
  void ForEachPair(Each each, F f) const {
    const WindowAxis &depth = window.axes[0], &height = window.axes[1], &width = window.axes[2];
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t z = 0; z < out.dims[0]; ++z) {
        for (int64_t y = 0; y < out.dims[1]; ++y) {
          for (int64_t x = 0; x < out.dims[2]; ++x) {
            const int64_t to = out.At(b, z, y, x);
            each(to);
            ForEachTap(depth, z, in.dims[0], [&](int64_t in_z, int64_t tap_z) {
              ForEachTap(height, y, in.dims[1], [&](int64_t in_y, int64_t tap_y) {
                ForEachTap(width, x, in.dims[2], [&](int64_t in_x, int64_t tap_x) {
                  f(to, in.At(b, in_z, in_y, in_x), (tap_z * height.window + tap_y) * width.window + tap_x);
                });
              });
            });
          }
        }
      }
    }
  }
  template <typename F>
  static void ForEachTap(const WindowAxis& axis, int64_t out, int64_t size, F f) {
    for (int64_t tap = 0; tap < axis.window; ++tap) {
      const int64_t at = out * axis.stride - axis.pad_before + tap * axis.dilation;
      if (at >= 0 && at < size) f(at, tap);
    }
  }
  int64_t in_elements() const { return batch * in.image; }
  int64_t out_elements() const { return batch * out.image; }
  int64_t filter_elements() const {
    const auto& [depth, height, width] = window.axes;
    return depth.window * height.window * width.window * group_in * out.channels;
  }
  int64_t groups = 1, group_in = 0, group_out = 0;  // of a convolution
};

enum class Op { kForward, kBackpropInput, kBackpropFilter, kMax, kMaxGrad, kMaxGradGrad, kAvg, kAvgGrad };

template <typename T, Op kOp>
class VolumeKernel final : public Kernel {
 public:
  explicit VolumeKernel(const Volume& volume) : v_(volume) {}
  Status Run(const KernelContext& context) const override {
    const auto in = [&](size_t i) { return reinterpret_cast<const T*>(context.inputs[i]); };
    T* result = reinterpret_cast<T*>(context.outputs[0]);
    const auto nothing = [](int64_t) {};
    if constexpr (kOp == Op::kForward) {
      const T *volume = in(0), *filter = in(1);
      std::fill_n(result, v_.out_elements(), T{0});
      v_.ForEachPair(nothing, [&](int64_t to, int64_t from, int64_t tap) {
        ForEachProduct(from, tap, to, [&](int64_t x, int64_t w, int64_t y) { result[y] += volume[x] * filter[w]; });
      });
    } else if constexpr (kOp == Op::kBackpropInput) {
      const T *filter = in(1), *gradient = in(2);
      std::fill_n(result, v_.in_elements(), T{0});
      v_.ForEachPair(nothing, [&](int64_t to, int64_t from, int64_t tap) {
        ForEachProduct(from, tap, to, [&](int64_t x, int64_t w, int64_t y) { result[x] += gradient[y] * filter[w]; });
      });
    } else if constexpr (kOp == Op::kBackpropFilter) {
      const T *volume = in(0), *gradient = in(2);
      std::fill_n(result, v_.filter_elements(), T{0});
      v_.ForEachPair(nothing, [&](int64_t to, int64_t from, int64_t tap) {
        ForEachProduct(from, tap, to, [&](int64_t x, int64_t w, int64_t y) { result[w] += volume[x] * gradient[y]; });
      });
    } else {
      RunPool(in, result);
    }
    return {};
  }

 private:
  // Calls f(input, filter, output) for all channels of a pair of pixels.
  template <typename F>
  void ForEachProduct(int64_t from, int64_t tap, int64_t to, F f) const {
    for (int64_t o = 0; o < v_.out.channels; ++o) {
      const int64_t first = o / v_.group_out * v_.group_in;
      for (int64_t i = 0; i < v_.group_in; ++i)
        f(from + (first + i) * v_.in.channel, (tap * v_.group_in + i) * v_.out.channels + o, to + o * v_.out.channel);
    }
  }

  template <typename In>
  void RunPool(const In& in, T* result) const {
    const int64_t channels = v_.in.channels, in_step = v_.in.channel, out_step = v_.out.channel;
    if constexpr (kOp == Op::kMaxGrad || kOp == Op::kAvgGrad) std::fill_n(result, v_.in_elements(), T{0});
    for (int64_t c = 0; c < channels; ++c) {
      int64_t best = -1;   // offset of the window's maximum
      int64_t window = 0;  // offset of the window's result
      int64_t count = 0;   // number of its pixels
      const auto finish = [&] {
        if (count == 0) return;
        if constexpr (kOp == Op::kMax) result[window] = in(0)[best];
        if constexpr (kOp == Op::kMaxGrad) result[best] += in(2)[window];
        if constexpr (kOp == Op::kMaxGradGrad) result[window] = in(2)[best];
        if constexpr (kOp == Op::kAvg) result[window] /= static_cast<T>(count);
      };
      if constexpr (kOp == Op::kAvgGrad) {
        ShareBack(in(1), result, c);
        continue;
      }
      v_.ForEachPair(
          [&](int64_t to) {
            finish();
            window = to + c * out_step;
            count = 0;
            if constexpr (kOp == Op::kAvg) result[window] = T{0};
          },
          [&](int64_t, int64_t from, int64_t) {
            const int64_t at = from + c * in_step;
            if constexpr (kOp == Op::kAvg) {
              result[window] += in(0)[at];
            } else {
              const T x = in(0)[at];
              if (count == 0 || x > in(0)[best] || x != x) best = at;  // NaN wins
            }
            ++count;
          });
      finish();
    }
  }

  // Divides each window's gradient by its number of pixels, which are counted first.
  void ShareBack(const T* gradient, T* result, int64_t c) const {
    const auto& axes = v_.window.axes;
    for (int64_t b = 0; b < v_.batch; ++b) {
      for (int64_t z = 0; z < v_.out.dims[0]; ++z) {
        for (int64_t y = 0; y < v_.out.dims[1]; ++y) {
          for (int64_t x = 0; x < v_.out.dims[2]; ++x) {
            const auto taps = [&](size_t axis, int64_t at) {
              int64_t count = 0;
              Volume::ForEachTap(axes[axis], at, v_.in.dims[axis], [&](int64_t, int64_t) { ++count; });
              return count;
            };
            const T share = gradient[v_.out.At(b, z, y, x) + c * v_.out.channel] /
                            static_cast<T>(taps(0, z) * taps(1, y) * taps(2, x));
            Volume::ForEachTap(axes[0], z, v_.in.dims[0], [&](int64_t in_z, int64_t) {
              Volume::ForEachTap(axes[1], y, v_.in.dims[1], [&](int64_t in_y, int64_t) {
                Volume::ForEachTap(axes[2], x, v_.in.dims[2], [&](int64_t in_x, int64_t) {
                  result[v_.in.At(b, in_z, in_y, in_x) + c * v_.in.channel] += share;
                });
              });
            });
          }
        }
      }
    }
  }

  Volume v_;
};

template <typename T, Op kOp>
StatusOr<Prepared> PrepareVolume(const NodeView& node, const KernelPolicy&) {
  constexpr bool kConvolution = kOp == Op::kForward || kOp == Op::kBackpropInput || kOp == Op::kBackpropFilter;
  constexpr bool kSmallIsSecond = kOp == Op::kMaxGrad || kOp == Op::kMaxGradGrad || kOp == Op::kAvgGrad;
  const Shape& volume = kOp == Op::kBackpropInput || kOp == Op::kAvgGrad ? node.outputs[0].shape : node.inputs[0].shape;
  const Shape& result = kOp == Op::kBackpropInput || kOp == Op::kBackpropFilter ? node.inputs[2].shape
                        : kSmallIsSecond                                        ? node.inputs[1].shape
                                                                                : node.outputs[0].shape;
  if (volume.rank() != 5 || result.rank() != 5)
    return InvalidArgument("volumes have 5 dimensions, not {} and {}", volume.ToString(), result.ToString());
  Volume v;
  Shape expected;
  if constexpr (kConvolution) {
    const Shape& filter = kOp == Op::kBackpropFilter ? node.outputs[0].shape : node.inputs[1].shape;
    if (filter.rank() != 5) return InvalidArgument("a filter has 5 dimensions, not {}", filter.ToString());
    RIVULET_ASSIGN_OR_RETURN(
        v.window, MakeVolumeWindow(node.node.attrs(), volume, {filter.dim(0), filter.dim(1), filter.dim(2)}));
    const int64_t channels = volume.dim(v.window.channel_axis());
    v.group_in = filter.dim(3);
    v.groups = v.group_in > 0 ? std::max<int64_t>(1, channels / v.group_in) : 1;
    if (v.group_in * v.groups != channels || filter.dim(4) % v.groups != 0)
      return InvalidArgument("a filter of {} does not fit {} channels", filter.ToString(), channels);
    v.group_out = std::max<int64_t>(1, filter.dim(4) / v.groups);
    expected = VolumeOutput(v.window, volume, filter.dim(4));
  } else {
    RIVULET_ASSIGN_OR_RETURN(v.window, PoolVolumeWindow(node.node.attrs(), volume));
    expected = VolumeOutput(v.window, volume, volume.dim(v.window.channel_axis()));
  }
  if (result != expected)
    return InvalidArgument("the window over {} gives {}, not {}", volume.ToString(), expected.ToString(),
                           result.ToString());
  v.batch = volume.dim(0);
  v.in = Layout(volume, v.window);
  v.out = Layout(result, v.window);
  Prepared prepared;
  prepared.implementation = "loops";
  if constexpr (kConvolution)
    prepared.flops = 2.0 * static_cast<double>(v.out_elements()) *
                     static_cast<double>(v.filter_elements() / std::max<int64_t>(1, v.out.channels));
  prepared.kernel = std::make_unique<VolumeKernel<T, kOp>>(v);
  return prepared;
}

#define RIVULET_VOLUME_KERNEL(name, op)                                      \
  RIVULET_KERNEL(name, Device::kCpu, float, (PrepareVolume<float, Op::op>)); \
  RIVULET_KERNEL(name, Device::kCpu, double, (PrepareVolume<double, Op::op>))

RIVULET_VOLUME_KERNEL("Conv3D", kForward);
RIVULET_VOLUME_KERNEL("Conv3DBackpropInputV2", kBackpropInput);
RIVULET_VOLUME_KERNEL("Conv3DBackpropFilterV2", kBackpropFilter);
RIVULET_VOLUME_KERNEL("MaxPool3D", kMax);
RIVULET_VOLUME_KERNEL("MaxPool3DGrad", kMaxGrad);
RIVULET_VOLUME_KERNEL("MaxPool3DGradGrad", kMaxGradGrad);
RIVULET_VOLUME_KERNEL("AvgPool3D", kAvg);
RIVULET_VOLUME_KERNEL("AvgPool3DGrad", kAvgGrad);

}  // namespace
}  // namespace rivulet
