// LayerNorm and RmsNorm over rows, and their gradients. Sums within a row use 16 virtual lanes; blocks of a row and
// rows are added in order in double.
#include <algorithm>
#include <cmath>

#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/reduction/layer_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "hwy/highway.h"
// clang-format on

#ifndef RIVULET_LAYER_NORM_ROWS_
#define RIVULET_LAYER_NORM_ROWS_
namespace rivulet {
template <typename T>
struct NormRows {
  int64_t rows = 0, width = 0;
  double epsilon = 0;
};
// Gradients of scale and offset are summed in T over at most this many rows, then in double.
inline constexpr int64_t kNormRowBlock = 64;
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 4096;

// Several rows go through each step together: a single row would wait for
// its sums, its quotients and its root, which depend on each other. As many
// rows as the nearest cache holds with their results; a multiple of four.
constexpr int64_t kRowsAtOnce = 16;
HWY_INLINE int64_t NormRowsAtOnce(int64_t width) { return width <= 256 ? kRowsAtOnce : width <= 512 ? 8 : 4; }

// Sums of f over each of `rows` rows, in blocks of a row: f(row, begin of the block, load, add) as in LaneTotals.
// Elements of `sums` for missing rows are undefined.
template <size_t kSums, typename T, class F>
HWY_INLINE void RowSums(int64_t rows, int64_t width, F f, double (&sums)[kSums][kRowsAtOnce]) {
  const hn::CappedTag<T, 16> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kVectors = 16 / hn::MaxLanes(hn::CappedTag<T, 16>());
  for (auto& of_rows : sums) std::fill_n(of_rows, kRowsAtOnce, 0.0);
  for (int64_t first = 0; first < rows; first += 4) {
    for (int64_t begin = 0; begin < width; begin += kBlock) {
      V totals[kSums][4][kVectors];
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t row = std::min(first + r, rows - 1);  // the last row replaces missing ones
        V total[kSums][kVectors];
        LaneTotals<kSums>(
            d, static_cast<size_t>(std::min(kBlock, width - begin)),
            [&](auto load, auto add) HWY_ATTR { f(row, begin, load, add); }, total);
        for (size_t s = 0; s < kSums; ++s) {
          RIVULET_UNROLL
          for (size_t k = 0; k < kVectors; ++k) totals[s][r][k] = total[s][k];
        }
      }
      for (size_t s = 0; s < kSums; ++s) {
        T joined[4];
        JoinRows(d, totals[s], joined);
        for (int64_t r = 0; r < 4; ++r) sums[s][first + r] += static_cast<double>(joined[r]);
      }
    }
  }
}

// Converts f of all kRowsAtOnce rows' doubles to T, by vectors.
template <typename T, class F>
HWY_INLINE void OfRows(F f, T (&results)[kRowsAtOnce]) {
  const hn::CappedTag<double, kRowsAtOnce> d;
  for (size_t r = 0; r < kRowsAtOnce; r += hn::Lanes(d)) {
    const auto value = f(d, r);
    if constexpr (std::is_same_v<T, float>) {
      const hn::Rebind<float, decltype(d)> of_float;
      hn::StoreU(hn::DemoteTo(of_float, value), of_float, results + r);
    } else {
      hn::StoreU(value, d, results + r);
    }
  }
}

// Centered (LayerNorm): y = (x - mean) · inverse · scale + offset. Otherwise (RmsNorm): y = x · inverse · scale.
template <bool kCentered, typename T>
HWY_INLINE void Forward(const NormRows<T>& n, const T* x, const T* scale, const T* offset, T* y, T* mean, T* inverse) {
  const hn::CappedTag<T, 16> d16;
  const hn::ScalableTag<T> d;
  const double width = static_cast<double>(n.width);
  const int64_t at_once = NormRowsAtOnce(n.width);
  double sums[1][kRowsAtOnce];
  T centers[kRowsAtOnce] = {}, inverses[kRowsAtOnce];
  for (int64_t first = 0; first < n.rows; first += at_once) {
    const int64_t rows = std::min(at_once, n.rows - first);
    if constexpr (kCentered) {
      RowSums<1, T>(
          rows, n.width,
          [&](int64_t r, int64_t begin, auto load, auto add) HWY_ATTR { add(0, load(x + r * n.width + begin)); }, sums);
      OfRows([&](auto dd, size_t r) HWY_ATTR { return hn::Div(hn::LoadU(dd, sums[0] + r), hn::Set(dd, width)); },
             centers);
      std::copy_n(centers, rows, mean + first);
    }
    RowSums<1, T>(
        rows, n.width,
        [&](int64_t r, int64_t begin, auto load, auto add) HWY_ATTR {
          const auto distance = hn::Sub(load(x + r * n.width + begin), hn::Set(d16, centers[r]));
          add(0, hn::Mul(distance, distance));
        },
        sums);
    OfRows(
        [&](auto dd, size_t r) HWY_ATTR {
          const auto variance = hn::Div(hn::LoadU(dd, sums[0] + r), hn::Set(dd, width));
          return hn::Div(hn::Set(dd, 1.0), hn::Sqrt(hn::Add(variance, hn::Set(dd, n.epsilon))));
        },
        inverses);
    std::copy_n(inverses, rows, inverse + first);
    for (int64_t r = 0; r < rows; ++r, x += n.width, y += n.width) {
      const auto center = hn::Set(d, centers[r]), by = hn::Set(d, inverses[r]);
      ForEachVector(d, static_cast<size_t>(n.width), [&](auto load, auto store) HWY_ATTR {
        if constexpr (kCentered)
          store(y, hn::Add(hn::Mul(hn::Mul(hn::Sub(load(x), center), by), load(scale)), load(offset)));
        else
          store(y, hn::Mul(hn::Mul(load(x), by), load(scale)));
      });
    }
  }
}

// Values that the gradients of some rows derive from their sums.
template <typename T>
struct RowFactors {
  T centers[kRowsAtOnce], inverses[kRowsAtOnce], minus[kRowsAtOnce], of_x[kRowsAtOnce];
};

// A column's part of some rows: dx, and the sums for the gradients of scale and offset, which stay in registers from
// row to row. `kVectors` vectors, or the last elements of a row with load and store for them.
template <bool kCentered, size_t kVectors, typename T, class D, class Load, class Store>
HWY_INLINE void BackwardColumns(D d, int64_t rows, int64_t width, const RowFactors<T>& factors, const T* dy, const T* x,
                                const T* scale, T* dx, T* of_scale, T* of_offset, Load load, Store store) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> scales[kVectors], scale_sums[kVectors], offset_sums[kVectors];
  _Pragma("GCC unroll 4") for (size_t v = 0; v < kVectors; ++v) {
    scales[v] = load(scale + v * lanes);
    scale_sums[v] = load(of_scale + v * lanes);
    if constexpr (kCentered) offset_sums[v] = load(of_offset + v * lanes);
  }
  for (int64_t r = 0; r < rows; ++r, dy += width, x += width, dx += width) {
    const auto center = hn::Set(d, factors.centers[r]), by = hn::Set(d, factors.inverses[r]);
    const auto minus = hn::Set(d, factors.minus[r]), of_x = hn::Set(d, factors.of_x[r]);
    _Pragma("GCC unroll 4") for (size_t v = 0; v < kVectors; ++v) {
      const auto gradient = load(dy + v * lanes), distance = hn::Sub(load(x + v * lanes), center);
      scale_sums[v] = hn::Add(scale_sums[v], hn::Mul(gradient, hn::Mul(distance, by)));
      if constexpr (kCentered) offset_sums[v] = hn::Add(offset_sums[v], gradient);
      auto result = hn::Mul(gradient, scales[v]);
      if constexpr (kCentered) result = hn::Sub(result, minus);
      store(dx + v * lanes, hn::Mul(hn::Sub(result, hn::Mul(distance, of_x)), by));
    }
  }
  _Pragma("GCC unroll 4") for (size_t v = 0; v < kVectors; ++v) {
    store(of_scale + v * lanes, scale_sums[v]);
    if constexpr (kCentered) store(of_offset + v * lanes, offset_sums[v]);
  }
}

// dx = inverse (dy · scale - s1 / width - (x - mean) inverse² s2 / width), where s1 and s2 are the row's sums of dy ·
// scale and of dy · scale · (x - mean); without s1 if nothing is centered. `totals`: 2 · width doubles, `partial`: 2 ·
// width of T.
template <bool kCentered, typename T>
HWY_INLINE void Backward(const NormRows<T>& n, const T* dy, const T* x, const T* scale, const T* mean, const T* inverse,
                         T* dx, T* scale_grad, T* offset_grad, double* totals, T* partial) {
  static_assert(kNormRowBlock % kRowsAtOnce == 0);
  const hn::CappedTag<T, 16> d16;
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const double width = static_cast<double>(n.width);
  std::fill_n(totals, 2 * n.width, 0.0);
  std::fill_n(partial, 2 * n.width, T{0});
  T *of_scale = partial, *of_offset = partial + n.width;
  const int64_t at_once = NormRowsAtOnce(n.width);
  double sums[2][kRowsAtOnce];
  RowFactors<T> factors = {};
  for (int64_t first = 0; first < n.rows; first += at_once) {
    const int64_t rows = std::min(at_once, n.rows - first);
    if constexpr (kCentered) std::copy_n(mean + first, rows, factors.centers);
    std::copy_n(inverse + first, rows, factors.inverses);
    RowSums<2, T>(
        rows, n.width,
        [&](int64_t r, int64_t begin, auto load, auto add) HWY_ATTR {
          const auto gradient = hn::Mul(load(dy + r * n.width + begin), load(scale + begin));
          add(0, gradient);
          add(1, hn::Mul(gradient, hn::Sub(load(x + r * n.width + begin), hn::Set(d16, factors.centers[r]))));
        },
        sums);
    if constexpr (kCentered)
      OfRows([&](auto dd, size_t r) HWY_ATTR { return hn::Div(hn::LoadU(dd, sums[0] + r), hn::Set(dd, width)); },
             factors.minus);
    double squares[kRowsAtOnce];
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      const double factor = static_cast<double>(factors.inverses[r]);
      squares[r] = factor * factor;
    }
    OfRows(
        [&](auto dd, size_t r) HWY_ATTR {
          const auto share = hn::Div(hn::LoadU(dd, sums[1] + r), hn::Set(dd, width));
          return hn::Mul(hn::LoadU(dd, squares + r), share);
        },
        factors.of_x);
    const auto load = [d](const T* p) HWY_ATTR { return hn::LoadU(d, p); };
    const auto store = [d](T* p, hn::Vec<decltype(d)> v) HWY_ATTR { hn::StoreU(v, d, p); };
    int64_t i = 0;
    for (; i + 4 * lanes <= n.width; i += 4 * lanes)
      BackwardColumns<kCentered, 4>(d, rows, n.width, factors, dy + i, x + i, scale + i, dx + i, of_scale + i,
                                    of_offset + i, load, store);
    for (; i + lanes <= n.width; i += lanes)
      BackwardColumns<kCentered, 1>(d, rows, n.width, factors, dy + i, x + i, scale + i, dx + i, of_scale + i,
                                    of_offset + i, load, store);
    if (i < n.width) {
      const size_t rest = static_cast<size_t>(n.width - i);
      BackwardColumns<kCentered, 1>(
          d, rows, n.width, factors, dy + i, x + i, scale + i, dx + i, of_scale + i, of_offset + i,
          [d, rest](const T* p) HWY_ATTR { return LoadTail(d, p, rest); },
          [d, rest](T* p, hn::Vec<decltype(d)> v) HWY_ATTR { StoreTail(v, d, p, rest); });
    }
    dy += rows * n.width, x += rows * n.width, dx += rows * n.width;
    if (first + rows == n.rows || (first + rows) % kNormRowBlock == 0) {
      for (int64_t k = 0; k < 2 * n.width; ++k) {
        totals[k] += static_cast<double>(partial[k]);
        partial[k] = T{0};
      }
    }
  }
  for (int64_t i = 0; i < n.width; ++i) scale_grad[i] = static_cast<T>(totals[i]);
  if constexpr (kCentered)
    for (int64_t i = 0; i < n.width; ++i) offset_grad[i] = static_cast<T>(totals[n.width + i]);
}

#define RIVULET_NORM_FUNCTIONS(name, centered, T)                                                                     \
  void name##Forward(const NormRows<T>& n, const T* x, const T* scale, const T* offset, T* y, T* mean, T* inverse) {  \
    Forward<centered>(n, x, scale, offset, y, mean, inverse);                                                         \
  }                                                                                                                   \
  void name##Backward(const NormRows<T>& n, const T* dy, const T* x, const T* scale, const T* mean, const T* inverse, \
                      T* dx, T* scale_grad, T* offset_grad, double* totals, T* partial) {                             \
    Backward<centered>(n, dy, x, scale, mean, inverse, dx, scale_grad, offset_grad, totals, partial);                 \
  }
RIVULET_NORM_FUNCTIONS(LayerF32, true, float)
RIVULET_NORM_FUNCTIONS(LayerF64, true, double)
RIVULET_NORM_FUNCTIONS(RmsF32, false, float)
RIVULET_NORM_FUNCTIONS(RmsF64, false, double)

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(LayerF32Forward);
HWY_EXPORT(LayerF64Forward);
HWY_EXPORT(RmsF32Forward);
HWY_EXPORT(RmsF64Forward);
HWY_EXPORT(LayerF32Backward);
HWY_EXPORT(LayerF64Backward);
HWY_EXPORT(RmsF32Backward);
HWY_EXPORT(RmsF64Backward);

template <typename T>
T* At(std::span<std::byte* const> tensors, size_t i) {
  return reinterpret_cast<T*>(tensors[i]);
}

// Outputs y, mean (LayerNorm only), inverse deviation.
template <bool kCentered, typename T>
class NormKernel final : public Kernel {
 public:
  explicit NormKernel(const NormRows<T>& rows) : rows_(rows) {}
  Status Run(const KernelContext& context) const override {
    const T *x = At<T>(context.inputs, 0), *scale = At<T>(context.inputs, 1);
    const T* offset = kCentered ? At<T>(context.inputs, 2) : nullptr;
    T* y = At<T>(context.outputs, 0);
    T *mean = kCentered ? At<T>(context.outputs, 1) : nullptr, *inverse = At<T>(context.outputs, kCentered ? 2 : 1);
    if constexpr (std::is_same_v<T, float> && kCentered)
      HWY_DYNAMIC_DISPATCH(LayerF32Forward)(rows_, x, scale, offset, y, mean, inverse);
    else if constexpr (kCentered)
      HWY_DYNAMIC_DISPATCH(LayerF64Forward)(rows_, x, scale, offset, y, mean, inverse);
    else if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(RmsF32Forward)(rows_, x, scale, offset, y, mean, inverse);
    else
      HWY_DYNAMIC_DISPATCH(RmsF64Forward)(rows_, x, scale, offset, y, mean, inverse);
    return {};
  }

 private:
  NormRows<T> rows_;
};

// Inputs dy, x, scale, mean (LayerNorm only), inverse; outputs dx, scale's gradient, offset's (LayerNorm only).
template <bool kCentered, typename T>
class NormGradKernel final : public Kernel {
 public:
  explicit NormGradKernel(const NormRows<T>& rows) : rows_(rows) {}
  Status Run(const KernelContext& context) const override {
    const T *dy = At<T>(context.inputs, 0), *x = At<T>(context.inputs, 1), *scale = At<T>(context.inputs, 2);
    const T* mean = kCentered ? At<T>(context.inputs, 3) : nullptr;
    const T* inverse = At<T>(context.inputs, kCentered ? 4 : 3);
    T *dx = At<T>(context.outputs, 0), *scale_grad = At<T>(context.outputs, 1);
    T* offset_grad = kCentered ? At<T>(context.outputs, 2) : nullptr;
    auto* totals = reinterpret_cast<double*>(context.scratch);
    T* partial = reinterpret_cast<T*>(totals + 2 * rows_.width);
    if constexpr (std::is_same_v<T, float> && kCentered) HWY_DYNAMIC_DISPATCH(LayerF32Backward)
    (rows_, dy, x, scale, mean, inverse, dx, scale_grad, offset_grad, totals, partial);
    else if constexpr (kCentered) HWY_DYNAMIC_DISPATCH(LayerF64Backward)(rows_, dy, x, scale, mean, inverse, dx,
                                                                         scale_grad, offset_grad, totals, partial);
    else if constexpr (std::is_same_v<T, float>) HWY_DYNAMIC_DISPATCH(RmsF32Backward)(
        rows_, dy, x, scale, mean, inverse, dx, scale_grad, offset_grad, totals, partial);
    else HWY_DYNAMIC_DISPATCH(RmsF64Backward)(rows_, dy, x, scale, mean, inverse, dx, scale_grad, offset_grad, totals,
                                              partial);
    return {};
  }

 private:
  NormRows<T> rows_;
};

// The number of rows is the product of the axes before begin_norm_axis.
template <typename T>
StatusOr<NormRows<T>> RowsOf(const NodeView& node, const Shape& x) {
  const int64_t begin = node.attr<int64_t>("begin_norm_axis");
  const int axis = static_cast<int>(begin < 0 ? begin + x.rank() : begin);
  NormRows<T> rows{1, 1, static_cast<double>(node.attr<float>("epsilon"))};
  for (int i = 0; i < x.rank(); ++i) (i < axis ? rows.rows : rows.width) *= x.dim(i);
  if (rows.width == 0) return InvalidArgument("the axes of {} to normalise over are empty", x.ToString());
  return rows;
}

template <bool kCentered, typename T>
StatusOr<Prepared> PrepareNorm(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const NormRows<T> rows, RowsOf<T>(node, node.inputs[0].shape));
  Prepared prepared;
  prepared.kernel = std::make_unique<NormKernel<kCentered, T>>(rows);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  prepared.flops = (kCentered ? 8.0 : 4.0) * static_cast<double>(rows.rows * rows.width);
  return prepared;
}

template <bool kCentered, typename T>
StatusOr<Prepared> PrepareNormGrad(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const NormRows<T> rows, RowsOf<T>(node, node.inputs[1].shape));
  Prepared prepared;
  prepared.kernel = std::make_unique<NormGradKernel<kCentered, T>>(rows);
  prepared.scratch_bytes = static_cast<size_t>(rows.width) * 2 * (sizeof(double) + sizeof(T));
  prepared.in_place = {{0, 0}, {1, 0}};
  prepared.implementation = "hwy";
  prepared.flops = 14.0 * static_cast<double>(rows.rows * rows.width);
  return prepared;
}

RIVULET_KERNEL("LayerNorm", Device::kCpu, float, (PrepareNorm<true, float>));
RIVULET_KERNEL("LayerNorm", Device::kCpu, double, (PrepareNorm<true, double>));
RIVULET_KERNEL("RmsNorm", Device::kCpu, float, (PrepareNorm<false, float>));
RIVULET_KERNEL("RmsNorm", Device::kCpu, double, (PrepareNorm<false, double>));
RIVULET_KERNEL("LayerNormGrad", Device::kCpu, float, (PrepareNormGrad<true, float>));
RIVULET_KERNEL("LayerNormGrad", Device::kCpu, double, (PrepareNormGrad<true, double>));
RIVULET_KERNEL("RmsNormGrad", Device::kCpu, float, (PrepareNormGrad<false, float>));
RIVULET_KERNEL("RmsNormGrad", Device::kCpu, double, (PrepareNormGrad<false, double>));

}  // namespace
}  // namespace rivulet
#endif
