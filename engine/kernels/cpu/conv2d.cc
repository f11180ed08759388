// Conv2D and its two gradients: oneDNN and our direct convolutions for float32, plain loops for everything else and as
// the portable kernel.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/direct_conv.h"
#include "engine/kernels/cpu/dnnl_shim.h"
#include "engine/kernels/cpu/window.h"
#include "engine/program/kernel.h"

namespace rivulet {
namespace {

// Calls f(input pixel, filter tap) for every tap of the window at (row, column) that lies inside the image.
template <typename F>
void ForEachTap(const Window& w, int64_t row, int64_t column, F f) {
  for (int64_t y = 0; y < w.height; ++y) {
    const int64_t in_y = row * w.stride_height - w.pad_top + y * w.dilation_height;
    if (in_y < 0 || in_y >= w.in_height) continue;
    for (int64_t x = 0; x < w.width; ++x) {
      const int64_t in_x = column * w.stride_width - w.pad_left + x * w.dilation_width;
      if (in_x < 0 || in_x >= w.in_width) continue;
      f(in_y * w.in_width + in_x, y * w.width + x);
    }
  }
}

// Calls f(input offset, filter offset, output offset) for every pair of pixels that a tap joins; offsets in elements.
template <typename F>
void ForEachPair(const Window& w, F f) {
  for (int64_t image = 0; image < w.batch; ++image) {
    for (int64_t row = 0; row < w.out_height; ++row) {
      for (int64_t column = 0; column < w.out_width; ++column) {
        const int64_t out = ((image * w.out_height + row) * w.out_width + column) * w.out_channels;
        ForEachTap(w, row, column, [&](int64_t pixel, int64_t tap) {
          f((image * w.in_height * w.in_width + pixel) * w.in_channels, tap * w.in_channels * w.out_channels, out);
        });
      }
    }
  }
}

template <typename T>
class ConvLoops final : public Kernel {
 public:
  ConvLoops(ConvDirection direction, const Window& window) : direction_(direction), w_(window) {}

  Status Run(const KernelContext& context) const override {
    const T* first = reinterpret_cast<const T*>(context.inputs[0]);
    const T* second = reinterpret_cast<const T*>(context.inputs[1]);
    T* result = reinterpret_cast<T*>(context.outputs[0]);
    const int64_t in_channels = w_.in_channels, out_channels = w_.out_channels;
    switch (direction_) {
      case ConvDirection::kForward:
        std::fill_n(result, w_.out_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_channels; ++i) {
            const T x = first[in + i];
            const T* weights = second + filter + i * out_channels;
            for (int64_t o = 0; o < out_channels; ++o) result[out + o] += x * weights[o];
          }
        });
        break;
      case ConvDirection::kBackwardInput:
        std::fill_n(result, w_.in_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_channels; ++i) {
            const T* weights = first + filter + i * out_channels;
            T sum{0};
            for (int64_t o = 0; o < out_channels; ++o) sum += second[out + o] * weights[o];
            result[in + i] += sum;
          }
        });
        break;
      case ConvDirection::kBackwardFilter:
        std::fill_n(result, w_.filter_elements(), T{0});
        ForEachPair(w_, [&](int64_t in, int64_t filter, int64_t out) {
          for (int64_t i = 0; i < in_channels; ++i) {
            const T x = first[in + i];
            T* weights = result + filter + i * out_channels;
            for (int64_t o = 0; o < out_channels; ++o) weights[o] += x * second[out + o];
          }
        });
        break;
    }
    return {};
  }

 private:
  ConvDirection direction_;
  Window w_;
};

// Drops the size inputs of the gradients, which say what the shapes say: the kernel sees the two tensors.
class TwoOfThree final : public Kernel {
 public:
  TwoOfThree(std::unique_ptr<const Kernel> kernel, size_t first, size_t second)
      : kernel_(std::move(kernel)), first_(first), second_(second) {}
  Status Run(const KernelContext& context) const override {
    std::byte* const inputs[] = {context.inputs[first_], context.inputs[second_]};
    KernelContext inner = context;
    inner.inputs = inputs;
    return kernel_->Run(inner);
  }
  std::unique_ptr<KernelState> NewState() const override { return kernel_->NewState(); }

 private:
  std::unique_ptr<const Kernel> kernel_;
  size_t first_, second_;
};

template <typename T>
Prepared PrepareDirection(ConvDirection direction, const Window& window, const KernelPolicy& policy) {
  if constexpr (std::is_same_v<T, float>) {
    if (!policy.portable) {
      if (std::optional<Prepared> fast = DnnlConvolution(direction, window)) return *std::move(fast);
      if (std::optional<Prepared> direct = DirectConvolution(direction, window)) return *std::move(direct);
    }
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<ConvLoops<T>>(direction, window);
  prepared.implementation = "loops";
  prepared.flops = 2 * window.multiply_adds();
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareConv2D(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const Window window,
                           ConvWindow(node, node.inputs[0].shape, node.inputs[1].shape, node.outputs[0].shape));
  Prepared prepared = PrepareDirection<T>(ConvDirection::kForward, window, policy);
  return window.nchw ? ForNchw(std::move(prepared), node, {true, false}, true) : std::move(prepared);
}

template <typename T>
StatusOr<Prepared> PrepareBackpropInput(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const Window window,
                           ConvWindow(node, node.outputs[0].shape, node.inputs[1].shape, node.inputs[2].shape));
  Prepared prepared = PrepareDirection<T>(ConvDirection::kBackwardInput, window, policy);
  prepared.kernel = std::make_unique<TwoOfThree>(std::move(prepared.kernel), 1, 2);
  return window.nchw ? ForNchw(std::move(prepared), node, {false, false, true}, true) : std::move(prepared);
}

template <typename T>
StatusOr<Prepared> PrepareBackpropFilter(const NodeView& node, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const Window window,
                           ConvWindow(node, node.inputs[0].shape, node.outputs[0].shape, node.inputs[2].shape));
  Prepared prepared = PrepareDirection<T>(ConvDirection::kBackwardFilter, window, policy);
  prepared.kernel = std::make_unique<TwoOfThree>(std::move(prepared.kernel), 0, 2);
  return window.nchw ? ForNchw(std::move(prepared), node, {true, false, true}, false) : std::move(prepared);
}

RIVULET_KERNEL("Conv2D", Device::kCpu, float, PrepareConv2D<float>);
RIVULET_KERNEL("Conv2D", Device::kCpu, double, PrepareConv2D<double>);
RIVULET_KERNEL("Conv2DBackpropInput", Device::kCpu, float, PrepareBackpropInput<float>);
RIVULET_KERNEL("Conv2DBackpropInput", Device::kCpu, double, PrepareBackpropInput<double>);
RIVULET_KERNEL("Conv2DBackpropFilter", Device::kCpu, float, PrepareBackpropFilter<float>);
RIVULET_KERNEL("Conv2DBackpropFilter", Device::kCpu, double, PrepareBackpropFilter<double>);

}  // namespace
}  // namespace rivulet
