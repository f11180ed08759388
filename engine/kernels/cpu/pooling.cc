// MaxPool, AvgPool and their gradients over NHWC, a vector of channels at a time. Every element is computed in one
// order whatever the vector's length, so these kernels are portable as they are.
#include <algorithm>

#include "engine/kernels/cpu/window.h"
#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/pooling.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/tail-inl.h"
// clang-format on

#ifndef RIVULET_POOLING_ONCE
#define RIVULET_POOLING_ONCE
namespace rivulet {
// The part of a window that lies inside the image.
struct PoolTaps {
  int64_t y0, y1, x0, x1;
  int64_t count() const { return (y1 - y0) * (x1 - x0); }
};
inline PoolTaps TapsOf(const Window& w, int64_t row, int64_t column) {
  const int64_t y = row * w.stride_height - w.pad_top, x = column * w.stride_width - w.pad_left;
  return {std::max<int64_t>(0, y), std::min(w.in_height, y + w.height), std::max<int64_t>(0, x),
          std::min(w.in_width, x + w.width)};
}
// Every input pixel lies in exactly one window.
inline bool Tiles(const Window& w) {
  return w.height == w.stride_height && w.width == w.stride_width && w.in_height == w.out_height * w.height &&
         w.in_width == w.out_width * w.width;
}
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T, class F>
HWY_INLINE void ForEachWindow(const Window& w, F f) {
  for (int64_t image = 0; image < w.batch; ++image) {
    for (int64_t row = 0; row < w.out_height; ++row) {
      for (int64_t column = 0; column < w.out_width; ++column) {
        f(TapsOf(w, row, column), image * w.in_height * w.in_width * w.in_channels,
          ((image * w.out_height + row) * w.out_width + column) * w.in_channels);
      }
    }
  }
}

template <typename T>
void MaxPool(const Window& w, const T* in, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t channels = w.in_channels;
  ForEachWindow<T>(w, [&](const PoolTaps& taps, int64_t image, int64_t to) HWY_ATTR {
    const T* pixels = in + image;
    ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      auto best = load(pixels + (taps.y0 * w.in_width + taps.x0) * channels);
      for (int64_t y = taps.y0; y < taps.y1; ++y) {
        for (int64_t x = taps.x0; x < taps.x1; ++x) {
          best = hn::Max(best, load(pixels + (y * w.in_width + x) * channels));
        }
      }
      store(out + to, best);
    });
  });
}

// With kRelu, `in` is a Relu's output, and what is not positive there passes no gradient.
template <typename T, bool kRelu>
void MaxPoolGrad(const Window& w, const T* in, const T* out, const T* gradient, T* result) {
  const hn::ScalableTag<T> d;
  const int64_t channels = w.in_channels;
  const bool tiles = Tiles(w);
  if (!tiles) std::fill_n(result, w.in_elements(), T{0});
  ForEachWindow<T>(w, [&](const PoolTaps& taps, int64_t image, int64_t to) HWY_ATTR {
    const T* pixels = in + image;
    T* results = result + image;
    ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      const auto best = load(out + to);
      auto left = load(gradient + to);  // becomes zero where the first maximum took it
      for (int64_t y = taps.y0; y < taps.y1; ++y) {
        for (int64_t x = taps.x0; x < taps.x1; ++x) {
          const int64_t at = (y * w.in_width + x) * channels;
          const auto pixel = load(pixels + at);
          const auto is_best = hn::Eq(pixel, best);
          auto share = hn::IfThenElseZero(is_best, left);
          if constexpr (kRelu) share = hn::IfThenElseZero(hn::Gt(pixel, hn::Zero(d)), share);
          left = hn::IfThenZeroElse(is_best, left);
          store(results + at, tiles ? share : hn::Add(load(results + at), share));
        }
      }
    });
  });
}

template <typename T>
void AvgPool(const Window& w, const T* in, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t channels = w.in_channels;
  ForEachWindow<T>(w, [&](const PoolTaps& taps, int64_t image, int64_t to) HWY_ATTR {
    const T* pixels = in + image;
    const auto count = hn::Set(d, static_cast<T>(taps.count()));
    ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t y = taps.y0; y < taps.y1; ++y) {
        for (int64_t x = taps.x0; x < taps.x1; ++x) sum = hn::Add(sum, load(pixels + (y * w.in_width + x) * channels));
      }
      store(out + to, hn::Div(sum, count));
    });
  });
}

template <typename T>
void AvgPoolGrad(const Window& w, const T* gradient, T* result) {
  const hn::ScalableTag<T> d;
  const int64_t channels = w.in_channels;
  std::fill_n(result, w.in_elements(), T{0});
  ForEachWindow<T>(w, [&](const PoolTaps& taps, int64_t image, int64_t to) HWY_ATTR {
    T* results = result + image;
    const auto count = hn::Set(d, static_cast<T>(taps.count()));
    ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
      const auto share = hn::Div(load(gradient + to), count);
      for (int64_t y = taps.y0; y < taps.y1; ++y) {
        for (int64_t x = taps.x0; x < taps.x1; ++x) {
          const int64_t at = (y * w.in_width + x) * channels;
          store(results + at, hn::Add(load(results + at), share));
        }
      }
    });
  });
}

void MaxPoolF32(const Window& w, const float* in, float* out) { MaxPool(w, in, out); }
void MaxPoolGradF32(const Window& w, const float* in, const float* out, const float* gradient, float* result) {
  MaxPoolGrad<float, false>(w, in, out, gradient, result);
}
void MaxPoolReluGradF32(const Window& w, const float* in, const float* out, const float* gradient, float* result) {
  MaxPoolGrad<float, true>(w, in, out, gradient, result);
}
void AvgPoolF32(const Window& w, const float* in, float* out) { AvgPool(w, in, out); }
void AvgPoolGradF32(const Window& w, const float* gradient, float* result) { AvgPoolGrad(w, gradient, result); }
#if HWY_HAVE_FLOAT64
void MaxPoolF64(const Window& w, const double* in, double* out) { MaxPool(w, in, out); }
void MaxPoolGradF64(const Window& w, const double* in, const double* out, const double* gradient, double* result) {
  MaxPoolGrad<double, false>(w, in, out, gradient, result);
}
void MaxPoolReluGradF64(const Window& w, const double* in, const double* out, const double* gradient, double* result) {
  MaxPoolGrad<double, true>(w, in, out, gradient, result);
}
void AvgPoolF64(const Window& w, const double* in, double* out) { AvgPool(w, in, out); }
void AvgPoolGradF64(const Window& w, const double* gradient, double* result) { AvgPoolGrad(w, gradient, result); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(MaxPoolF32);
HWY_EXPORT(MaxPoolGradF32);
HWY_EXPORT(MaxPoolReluGradF32);
HWY_EXPORT(MaxPoolReluGradF64);
HWY_EXPORT(AvgPoolF32);
HWY_EXPORT(AvgPoolGradF32);
HWY_EXPORT(MaxPoolF64);
HWY_EXPORT(MaxPoolGradF64);
HWY_EXPORT(AvgPoolF64);
HWY_EXPORT(AvgPoolGradF64);

enum class Pool { kMax, kMaxGrad, kMaxReluGrad, kAvg, kAvgGrad };
constexpr bool IsMaxGrad(Pool pool) { return pool == Pool::kMaxGrad || pool == Pool::kMaxReluGrad; }

template <typename T, Pool kPool>
class PoolKernel final : public Kernel {
 public:
  explicit PoolKernel(const Window& window) : w_(window) {}
  Status Run(const KernelContext& context) const override {
    constexpr bool kFloat = std::is_same_v<T, float>;
    const auto in = [&](size_t i) { return reinterpret_cast<const T*>(context.inputs[i]); };
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if constexpr (kPool == Pool::kMax) {
      if constexpr (kFloat)
        HWY_DYNAMIC_DISPATCH(MaxPoolF32)(w_, in(0), out);
      else
        HWY_DYNAMIC_DISPATCH(MaxPoolF64)(w_, in(0), out);
    } else if constexpr (kPool == Pool::kMaxGrad) {
      if constexpr (kFloat)
        HWY_DYNAMIC_DISPATCH(MaxPoolGradF32)(w_, in(0), in(1), in(2), out);
      else
        HWY_DYNAMIC_DISPATCH(MaxPoolGradF64)(w_, in(0), in(1), in(2), out);
    } else if constexpr (kPool == Pool::kMaxReluGrad) {
      if constexpr (kFloat)
        HWY_DYNAMIC_DISPATCH(MaxPoolReluGradF32)(w_, in(0), in(1), in(2), out);
      else
        HWY_DYNAMIC_DISPATCH(MaxPoolReluGradF64)(w_, in(0), in(1), in(2), out);
    } else if constexpr (kPool == Pool::kAvg) {
      if constexpr (kFloat)
        HWY_DYNAMIC_DISPATCH(AvgPoolF32)(w_, in(0), out);
      else
        HWY_DYNAMIC_DISPATCH(AvgPoolF64)(w_, in(0), out);
    } else {
      if constexpr (kFloat)
        HWY_DYNAMIC_DISPATCH(AvgPoolGradF32)(w_, in(1), out);
      else
        HWY_DYNAMIC_DISPATCH(AvgPoolGradF64)(w_, in(1), out);
    }
    return {};
  }

 private:
  Window w_;
};

template <typename T, Pool kPool>
StatusOr<Prepared> PreparePool(const NodeView& node, const KernelPolicy&) {
  const Shape* in = &node.inputs[0].shape;
  const Shape* out = &node.outputs[0].shape;
  if (IsMaxGrad(kPool)) out = &node.inputs[1].shape;
  if (kPool == Pool::kAvgGrad) {
    in = &node.outputs[0].shape;
    out = &node.inputs[1].shape;
  }
  RIVULET_ASSIGN_OR_RETURN(const Window window, PoolWindow(node, *in, *out));
  if (window.in_channels != window.out_channels)
    return InvalidArgument("a pool keeps its {} channels", window.in_channels);
  // A window wholly in the padding would have no maximum.
  if (window.pad_top >= window.height || window.pad_left >= window.width || window.pad_bottom >= window.height ||
      window.pad_right >= window.width) {
    return InvalidArgument("padding must be smaller than the window of {}x{}", window.height, window.width);
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<PoolKernel<T, kPool>>(window);
  prepared.implementation = "hwy";
  if (!window.nchw) return prepared;
  if (IsMaxGrad(kPool))
    return ForNchw(std::move(prepared), node.inputs, node.outputs[0], {true, true, true}, true);
  if (kPool == Pool::kAvgGrad) return ForNchw(std::move(prepared), node.inputs, node.outputs[0], {false, true}, true);
  return ForNchw(std::move(prepared), node.inputs, node.outputs[0], {true}, true);
}

RIVULET_KERNEL("MaxPool", Device::kCpu, float, (PreparePool<float, Pool::kMax>));
RIVULET_KERNEL("MaxPool", Device::kCpu, double, (PreparePool<double, Pool::kMax>));
RIVULET_KERNEL("MaxPoolGrad", Device::kCpu, float, (PreparePool<float, Pool::kMaxGrad>));
RIVULET_KERNEL("MaxPoolGrad", Device::kCpu, double, (PreparePool<double, Pool::kMaxGrad>));
RIVULET_KERNEL("_MaxPoolReluGrad", Device::kCpu, float, (PreparePool<float, Pool::kMaxReluGrad>));
RIVULET_KERNEL("_MaxPoolReluGrad", Device::kCpu, double, (PreparePool<double, Pool::kMaxReluGrad>));
RIVULET_KERNEL("AvgPool", Device::kCpu, float, (PreparePool<float, Pool::kAvg>));
RIVULET_KERNEL("AvgPool", Device::kCpu, double, (PreparePool<double, Pool::kAvg>));
RIVULET_KERNEL("AvgPoolGrad", Device::kCpu, float, (PreparePool<float, Pool::kAvgGrad>));
RIVULET_KERNEL("AvgPoolGrad", Device::kCpu, double, (PreparePool<double, Pool::kAvgGrad>));

}  // namespace
}  // namespace rivulet
#endif
