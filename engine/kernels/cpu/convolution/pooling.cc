// Pools and their gradients over NHWC, a vector of channels at a time. Every element is computed in one order for any
// vector length, so these kernels are portable. bfloat16 is widened when read and rounded when written, with the bits
// of the float32 kernel between conversions. NCHW: pooling_planes.cc.
#include <algorithm>
#include <type_traits>

#include "engine/kernels/cpu/convolution/pooling_plan.h"
#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/convolution/pooling.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/bfloat16-inl.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// uint16_t in memory is bfloat16; registers hold floats.
template <typename T>
constexpr bool kIsBFloat16 = std::is_same_v<T, uint16_t>;
template <typename T>
using Computed = std::conditional_t<kIsBFloat16<T>, float, T>;

// ForEachVector over a pixel's channels.
template <typename T, class F>
HWY_INLINE void ForEachChannel(const PoolPlan& plan, F f) {
  if constexpr (kIsBFloat16<T>) {
    ForEachBFloat16(static_cast<size_t>(plan.channels), f);
  } else {
    ForEachVector(hn::ScalableTag<T>(), static_cast<size_t>(plan.channels), f);
  }
}

// Calls f(rows, columns, offset of the window's first pixel in the image's elements, offset of the result's pixel).
template <class F>
HWY_INLINE void ForEachWindow(const PoolPlan& plan, F f) {
  int64_t to = 0;
  for (int64_t image = 0; image < plan.batch; ++image) {
    for (const PoolSpan& rows : plan.rows) {
      const int64_t row = (image * plan.in_height + rows.first) * plan.in_width;
      for (const PoolSpan& columns : plan.columns) {
        f(rows, columns, (row + columns.first) * plan.channels, to);
        to += plan.channels;
      }
    }
  }
}

// Calls f(offset of each pixel of a window from its first), row by row.
template <class F>
HWY_INLINE void ForEachPixel(const PoolPlan& plan, const PoolSpan& rows, const PoolSpan& columns, F f) {
  const int64_t column_step = plan.step_width * plan.channels;
  const int64_t row_step = plan.step_height * plan.in_width * plan.channels;
  for (int64_t y = 0; y < rows.count; ++y) {
    int64_t at = y * row_step;
    for (int64_t x = 0; x < columns.count; ++x, at += column_step) f(at);
  }
}

// The same if f only reads. Windows of two by two, the usual case, need no loops; with stores between them that is
// slower, because masked stores for few channels wait for each other.
template <class F>
HWY_INLINE void ForEachPixelRead(const PoolPlan& plan, const PoolSpan& rows, const PoolSpan& columns, F f) {
  if (rows.count != 2 || columns.count != 2) return ForEachPixel(plan, rows, columns, f);
  const int64_t column_step = plan.step_width * plan.channels;
  const int64_t row_step = plan.step_height * plan.in_width * plan.channels;
  f(0);
  f(column_step);
  f(row_step);
  f(row_step + column_step);
}

template <typename T>
void MaxPool(const PoolPlan& plan, const T* in, T* out) {
  ForEachWindow(plan, [&](const PoolSpan& rows, const PoolSpan& columns, int64_t from, int64_t to) HWY_ATTR {
    const T* window = in + from;
    ForEachChannel<T>(plan, [&](auto load, auto store) HWY_ATTR {
      auto best = load(window);
      ForEachPixelRead(plan, rows, columns, [&](int64_t at) HWY_ATTR {
        const auto x = load(window + at);
        best = hn::IfThenElse(hn::Or(hn::Gt(x, best), hn::IsNaN(x)), x, best);
      });
      store(out + to, best);
    });
  });
}

// With kRelu the image is Relu's output, and its zeros get no gradient: if the maximum is not above zero, no element
// is.
template <typename T, bool kRelu>
void MaxPoolGrad(const PoolPlan& plan, const T* in, const T* out, const T* gradient, T* result) {
  const hn::ScalableTag<Computed<T>> d;
  const bool tiles = plan.tiles;
  if (!tiles) std::fill_n(result, plan.in_elements(), T{0});
  ForEachWindow(plan, [&](const PoolSpan& rows, const PoolSpan& columns, int64_t from, int64_t to) HWY_ATTR {
    const T* window = in + from;
    T* results = result + from;
    ForEachChannel<T>(plan, [&](auto load, auto store) HWY_ATTR {
      const auto best = load(out + to);
      auto left = load(gradient + to);  // set to zero where the first maximum has taken it
      if constexpr (kRelu) left = hn::IfThenElseZero(hn::Gt(best, hn::Zero(d)), left);
      ForEachPixel(plan, rows, columns, [&](int64_t at) HWY_ATTR {
        const auto is_best = hn::Eq(load(window + at), best);
        const auto share = hn::IfThenElseZero(is_best, left);
        left = hn::IfThenZeroElse(is_best, left);
        store(results + at, tiles ? share : hn::Add(load(results + at), share));
      });
    });
  });
}

// Writes to each window's position the element of `gradient` at the window's first maximum.
template <typename T>
void MaxPoolGradGrad(const PoolPlan& plan, const T* in, const T* out, const T* gradient, T* result) {
  const hn::ScalableTag<Computed<T>> d;
  ForEachWindow(plan, [&](const PoolSpan& rows, const PoolSpan& columns, int64_t from, int64_t to) HWY_ATTR {
    const T *window = in + from, *gradients = gradient + from;
    ForEachChannel<T>(plan, [&](auto load, auto store) HWY_ATTR {
      const auto best = load(out + to);
      auto taken = hn::Zero(d);
      auto open = hn::Eq(taken, taken);
      ForEachPixel(plan, rows, columns, [&](int64_t at) HWY_ATTR {
        const auto is_first = hn::And(open, hn::Eq(load(window + at), best));
        taken = hn::IfThenElse(is_first, load(gradients + at), taken);
        open = hn::AndNot(is_first, open);
      });
      store(result + to, taken);
    });
  });
}

template <typename T>
void AvgPool(const PoolPlan& plan, const T* in, T* out) {
  const hn::ScalableTag<Computed<T>> d;
  ForEachWindow(plan, [&](const PoolSpan& rows, const PoolSpan& columns, int64_t from, int64_t to) HWY_ATTR {
    const T* window = in + from;
    const auto count = hn::Set(d, static_cast<Computed<T>>(rows.counted * columns.counted));
    ForEachChannel<T>(plan, [&](auto load, auto store) HWY_ATTR {
      auto sum = hn::Zero(d);
      ForEachPixelRead(plan, rows, columns, [&](int64_t at) HWY_ATTR { sum = hn::Add(sum, load(window + at)); });
      store(out + to, hn::Div(sum, count));
    });
  });
}

template <typename T>
void AvgPoolGrad(const PoolPlan& plan, const T* gradient, T* result) {
  const hn::ScalableTag<Computed<T>> d;
  const bool tiles = plan.tiles;
  if (!tiles) std::fill_n(result, plan.in_elements(), T{0});
  ForEachWindow(plan, [&](const PoolSpan& rows, const PoolSpan& columns, int64_t from, int64_t to) HWY_ATTR {
    T* results = result + from;
    const auto count = hn::Set(d, static_cast<Computed<T>>(rows.counted * columns.counted));
    ForEachChannel<T>(plan, [&](auto load, auto store) HWY_ATTR {
      const auto share = hn::Div(load(gradient + to), count);
      ForEachPixel(plan, rows, columns, [&](int64_t at) HWY_ATTR {
        store(results + at, tiles ? share : hn::Add(load(results + at), share));
      });
    });
  });
}

template <typename T>
HWY_INLINE void Run(Pool pool, const PoolPlan& plan, const T* a, const T* b, const T* c, T* out) {
  switch (pool) {
    case Pool::kMax:
      return MaxPool(plan, a, out);
    case Pool::kMaxGrad:
      return MaxPoolGrad<T, false>(plan, a, b, c, out);
    case Pool::kMaxGradRelu:
      return MaxPoolGrad<T, true>(plan, a, b, c, out);
    case Pool::kMaxGradGrad:
      return MaxPoolGradGrad(plan, a, b, c, out);
    case Pool::kAvg:
      return AvgPool(plan, a, out);
    case Pool::kAvgGrad:
      return AvgPoolGrad(plan, b, out);
  }
}

void PoolF32(Pool pool, const PoolPlan& plan, const float* a, const float* b, const float* c, float* out) {
  Run(pool, plan, a, b, c, out);
}
void PoolBF16(Pool pool, const PoolPlan& plan, const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* out) {
  Run(pool, plan, a, b, c, out);
}
#if HWY_HAVE_FLOAT64
void PoolF64(Pool pool, const PoolPlan& plan, const double* a, const double* b, const double* c, double* out) {
  Run(pool, plan, a, b, c, out);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(PoolF32);
HWY_EXPORT(PoolBF16);
HWY_EXPORT(PoolF64);

template <typename T>
class PoolKernel final : public Kernel {
 public:
  PoolKernel(Pool pool, PoolPlan plan) : pool_(pool), plan_(std::move(plan)) {}
  Status Run(const KernelContext& context) const override {
    const auto in = [&](size_t i) {
      return i < context.inputs.size() ? reinterpret_cast<const T*>(context.inputs[i]) : nullptr;
    };
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(PoolF32)(pool_, plan_, in(0), in(1), in(2), out);
    else if constexpr (std::is_same_v<T, uint16_t>)
      HWY_DYNAMIC_DISPATCH(PoolBF16)(pool_, plan_, in(0), in(1), in(2), out);
    else
      HWY_DYNAMIC_DISPATCH(PoolF64)(pool_, plan_, in(0), in(1), in(2), out);
    return {};
  }

 private:
  Pool pool_;
  PoolPlan plan_;
};

template <typename T, Pool kPool>
StatusOr<Prepared> PreparePool(const NodeView& node, const KernelPolicy&) {
  const bool grad = kPool == Pool::kMaxGrad || kPool == Pool::kMaxGradRelu || kPool == Pool::kMaxGradGrad;
  const Shape& image = kPool == Pool::kAvgGrad ? node.outputs[0].shape : node.inputs[0].shape;
  const Shape& pooled = grad || kPool == Pool::kAvgGrad ? node.inputs[1].shape : node.outputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(PoolPlan plan, MakePoolPlan(node, image, pooled));
  if (grad && node.inputs[2].shape != (kPool == Pool::kMaxGradGrad ? image : pooled))
    return InvalidArgument("grad of {} does not fit a pool of {}", node.inputs[2].shape.ToString(), image.ToString());
  if constexpr (std::is_same_v<T, uint16_t>) {
    // Contributions of overlapping windows are summed in float32, which needs memory.
    const bool sums =
        !plan.tiles && (kPool == Pool::kMaxGrad || kPool == Pool::kMaxGradRelu || kPool == Pool::kAvgGrad);
    if (plan.nchw || sums) return Unimplemented("a pool in bfloat16 over planes or windows that overlap");
  } else {
    if (plan.nchw) return PoolOverPlanes<T>(kPool, std::move(plan));
  }
  Prepared prepared;
  prepared.kernel = std::make_unique<PoolKernel<T>>(kPool, std::move(plan));
  prepared.implementation = "hwy";
  return prepared;
}

#define RIVULET_POOL_KERNELS(op, pool)                                         \
  RIVULET_KERNEL(op, Device::kCpu, float, (PreparePool<float, Pool::pool>));   \
  RIVULET_KERNEL(op, Device::kCpu, double, (PreparePool<double, Pool::pool>)); \
  RIVULET_KERNEL(op, Device::kCpu, bfloat16, (PreparePool<uint16_t, Pool::pool>))

RIVULET_POOL_KERNELS("MaxPool", kMax);
RIVULET_POOL_KERNELS("MaxPoolGrad", kMaxGrad);
RIVULET_POOL_KERNELS("_MaxPoolReluGrad", kMaxGradRelu);
RIVULET_POOL_KERNELS("MaxPoolGradGrad", kMaxGradGrad);
RIVULET_POOL_KERNELS("AvgPool", kAvg);
RIVULET_POOL_KERNELS("AvgPoolGrad", kAvgGrad);

}  // namespace

Prepared MaxPoolOverPixels(PoolPlan plan) {
  Prepared prepared;
  prepared.kernel = std::make_unique<PoolKernel<float>>(Pool::kMax, std::move(plan));
  prepared.implementation = "hwy";
  return prepared;
}

}  // namespace rivulet
#endif
