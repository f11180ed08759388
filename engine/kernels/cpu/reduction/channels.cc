#include "engine/kernels/cpu/reduction/channels.h"

#include <algorithm>
#include <tuple>

#include "engine/kernels/cpu/reduction/choose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/reduction/channels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a block, which stays in the first-level cache.
constexpr int64_t kChannelBlock = 4096;

int64_t BlockRows(int64_t channels) { return std::clamp<int64_t>(kChannelBlock / channels, 16, 256); }

// Calls f(vectors, offset, load, store) for groups of four vectors, then for single ones, then for the tail.
template <class D, class F>
HWY_INLINE void ForEachGroup(D d, size_t count, F f) {
  const size_t lanes = hn::Lanes(d);
  using T = hn::TFromD<D>;
  const auto at = [=](size_t i) HWY_ATTR {
    return std::tuple([=](const T* p, size_t v) HWY_ATTR { return hn::LoadU(d, p + i + v * lanes); },
                      [=](T* p, size_t v, hn::Vec<D> x) HWY_ATTR { hn::StoreU(x, d, p + i + v * lanes); },
                      [=](const T* p, size_t v) HWY_ATTR { __builtin_prefetch(p + i + v * lanes, 0, 2); });
  };
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto [load, store, prefetch] = at(i);
    f(std::integral_constant<size_t, 4>(), load, store, prefetch);
  }
  for (; i + lanes <= count; i += lanes) {
    const auto [load, store, prefetch] = at(i);
    f(std::integral_constant<size_t, 1>(), load, store, prefetch);
  }
  if (i < count) {
    const size_t rest = count - i;
    f(
        std::integral_constant<size_t, 1>(), [=](const T* p, size_t) HWY_ATTR { return LoadTail(d, p + i, rest); },
        [=](T* p, size_t, hn::Vec<D> x) HWY_ATTR { StoreTail(x, d, p + i, rest); },
        [=](const T* p, size_t) HWY_ATTR { __builtin_prefetch(p + i, 0, 2); });
  }
}

// Mean and squares of `rows` rows of channels-last x, written to block_mean and block_squares.
template <typename T>
HWY_INLINE void BlockMoments(const T* x, int64_t rows, int64_t channels, int64_t ahead, T* block_mean,
                             T* block_squares) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const V inverse = hn::Set(d, T{1} / static_cast<T>(rows));
  ForEachGroup(d, static_cast<size_t>(channels), [&](auto vectors, auto load, auto store, auto prefetch) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    V sum[kVectors], mean[kVectors];
    for (V& s : sum) s = hn::Zero(d);
    for (int64_t row = 0; row < rows; ++row)
      for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], load(x + row * channels, v));
    for (size_t v = 0; v < kVectors; ++v) {
      mean[v] = hn::Mul(sum[v], inverse);
      sum[v] = hn::Zero(d);
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t v = 0; v < kVectors; ++v) {
        prefetch(x + row * channels + ahead, v);
        const V distance = hn::Sub(load(x + row * channels, v), mean[v]);
        sum[v] = hn::Add(sum[v], hn::Mul(distance, distance));
      }
    }
    for (size_t v = 0; v < kVectors; ++v) {
      store(block_mean, v, mean[v]);
      store(block_squares, v, sum[v]);
    }
  });
}

// The same for `count` adjacent elements of one channel.
template <typename T>
HWY_INLINE void RowMoments(const T* x, int64_t count, T* block_mean, T* block_squares) {
  const hn::CappedTag<T, 16> d;
  T sum[1];
  LaneSums<1>(
      static_cast<size_t>(count), [&](auto load, auto add) HWY_ATTR { add(0, load(x)); }, sum);
  const T mean = sum[0] / static_cast<T>(count);
  const auto from = hn::Set(d, mean);
  LaneSums<1>(
      static_cast<size_t>(count),
      [&](auto load, auto add) HWY_ATTR {
        const auto distance = hn::Sub(load(x), from);
        add(0, hn::Mul(distance, distance));
      },
      sum);
  *block_mean = mean;
  *block_squares = sum[0];
}

// Joins a block's moments, of `count` elements, to those of `before` elements.
template <typename T>
HWY_INLINE void Join(double before, double count, T block_mean, T block_squares, double* mean, double* squares) {
  const double total = before + count, delta = static_cast<double>(block_mean) - *mean;
  *mean += delta * (count / total);
  *squares += static_cast<double>(block_squares) + delta * delta * (before * count / total);
}

template <typename T>
HWY_INLINE void Moments(const T* x, const ChannelLayout& layout, double* mean, double* squares, T* scratch) {
  const int64_t channels = layout.channels, inner = layout.inner;
  std::fill_n(mean, channels, 0.0);
  std::fill_n(squares, channels, 0.0);
  if (layout.elements() == 0) return;
  if (inner == 1) {
    T *block_mean = scratch, *block_squares = scratch + channels;
    const int64_t block_rows = BlockRows(channels);
    for (int64_t row = 0; row < layout.rows; row += block_rows) {
      const int64_t rows = std::min(block_rows, layout.rows - row);
      BlockMoments(x + row * channels, rows, channels, block_rows * channels, block_mean, block_squares);
      for (int64_t c = 0; c < channels; ++c)
        Join(static_cast<double>(row), static_cast<double>(rows), block_mean[c], block_squares[c], mean + c,
             squares + c);
    }
    return;
  }
  for (int64_t row = 0; row < layout.rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t begin = 0; begin < inner; begin += kChannelBlock) {
        const int64_t count = std::min(kChannelBlock, inner - begin);
        T block_mean, block_squares;
        RowMoments(x + (row * channels + c) * inner + begin, count, &block_mean, &block_squares);
        Join(static_cast<double>(row * inner + begin), static_cast<double>(count), block_mean, block_squares, mean + c,
             squares + c);
      }
    }
  }
}

// Both directions of a rectifier: y itself, and the lanes whose gradient passes.
template <class D, class V, typename T>
HWY_INLINE V RectifiedValue(D d, V y, T top) {
  const V limit = hn::Set(d, top);
  return hn::IfThenZeroElse(hn::Lt(y, hn::Zero(d)), hn::IfThenElse(hn::Gt(y, limit), limit, y));
}
template <class D, class V, typename T>
HWY_INLINE V Passed(D d, V y, T top, V gradient) {
  const V positive = hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), gradient);
  return hn::IfThenZeroElse(hn::Ge(y, hn::Set(d, top)), positive);
}

template <bool kRectified, typename T>
HWY_INLINE void GradientSums(const T* dy, const T* x, const T* mean, const Rectified<T>& r, const ChannelLayout& layout,
                             double* sum_dy, double* sum_dy_x, T* scratch) {
  const int64_t channels = layout.channels, inner = layout.inner;
  const T top = kRectified ? r.rectifier->top : T{0};
  std::fill_n(sum_dy, channels, 0.0);
  std::fill_n(sum_dy_x, channels, 0.0);
  if (inner == 1) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    T *block_dy = scratch, *block_dy_x = scratch + channels;
    const int64_t block_rows = BlockRows(std::max<int64_t>(channels, 1));
    for (int64_t begin = 0; begin < layout.rows; begin += block_rows) {
      const int64_t end = std::min(begin + block_rows, layout.rows);
      ForEachGroup(d, static_cast<size_t>(channels), [&](auto vectors, auto load, auto store, auto prefetch) HWY_ATTR {
        constexpr size_t kVectors = decltype(vectors)::value;
        V first[kVectors], second[kVectors], from[kVectors], factor[kVectors], offset[kVectors];
        for (size_t v = 0; v < kVectors; ++v) {
          first[v] = second[v] = hn::Zero(d);
          from[v] = load(mean, v);
          if constexpr (kRectified) {
            factor[v] = load(r.factor, v);
            offset[v] = load(r.offset, v);
          }
        }
        for (int64_t row = begin; row < end; ++row) {
          for (size_t v = 0; v < kVectors; ++v) {
            prefetch(dy + row * channels + block_rows * channels, v);
            prefetch(x + row * channels + block_rows * channels, v);
            V gradient = load(dy + row * channels, v);
            const V distance = hn::Sub(load(x + row * channels, v), from[v]);
            if constexpr (kRectified)
              gradient = Passed(d, hn::Add(hn::Mul(distance, factor[v]), offset[v]), top, gradient);
            first[v] = hn::Add(first[v], gradient);
            second[v] = hn::Add(second[v], hn::Mul(gradient, distance));
          }
        }
        for (size_t v = 0; v < kVectors; ++v) {
          store(block_dy, v, first[v]);
          store(block_dy_x, v, second[v]);
        }
      });
      for (int64_t c = 0; c < channels; ++c) {
        sum_dy[c] += static_cast<double>(block_dy[c]);
        sum_dy_x[c] += static_cast<double>(block_dy_x[c]);
      }
    }
    return;
  }
  const hn::CappedTag<T, 16> d;
  for (int64_t row = 0; row < layout.rows * channels; ++row) {
    const int64_t c = row % channels;
    const auto from = hn::Set(d, mean[c]);
    const auto factor = hn::Set(d, kRectified ? r.factor[c] : T{0});
    const auto offset = hn::Set(d, kRectified ? r.offset[c] : T{0});
    for (int64_t begin = 0; begin < inner; begin += kChannelBlock) {
      const T *dy_block = dy + row * inner + begin, *x_block = x + row * inner + begin;
      T sums[2];
      LaneSums<2>(
          static_cast<size_t>(std::min(kChannelBlock, inner - begin)),
          [&](auto load, auto add) HWY_ATTR {
            auto gradient = load(dy_block);
            const auto distance = hn::Sub(load(x_block), from);
            if constexpr (kRectified) gradient = Passed(d, hn::Add(hn::Mul(distance, factor), offset), top, gradient);
            add(0, gradient);
            add(1, hn::Mul(gradient, distance));
          },
          sums);
      sum_dy[c] += static_cast<double>(sums[0]);
      sum_dy_x[c] += static_cast<double>(sums[1]);
    }
  }
}

// Calls f(first, end) for all rows, the last ones first, some 64 KiB at a time. A normalisation follows a pass that
// computed the statistics from the first row to the last: for images larger than a cache, it still holds the last rows.
// And a later reader that starts at the beginning finds that in the cache.
template <typename T, class F>
HWY_INLINE void FromTheEnd(const ChannelLayout& layout, F f) {
  constexpr int64_t kElements = (int64_t{64} << 10) / sizeof(T);
  const int64_t rows = std::max<int64_t>(kElements / std::max<int64_t>(layout.channels, 1), 1);
  for (int64_t end = layout.rows; end > 0; end -= rows) f(std::max<int64_t>(end - rows, 0), end);
}

// Prefetches 2 KiB ahead of a row, because the hardware's
// prefetching stops at every page and restarts late.
template <typename T>
HWY_INLINE void FetchAhead(const T* row, int64_t channels) {
  constexpr int64_t kLine = 64 / sizeof(T), kAhead = 2048 / sizeof(T);
  for (int64_t c = 0; c < channels; c += kLine) hwy::Prefetch(row + c + kAhead);
}

// Whether y is written past the caches; it must consist of whole vectors, and not be the input.
template <class D, typename T>
HWY_INLINE bool WritesPastCaches(D d, const T* x, const T* y, const ChannelLayout& layout) {
  const size_t lanes = hn::Lanes(d);
  return PaysToWritePastCaches(layout.elements() * static_cast<int64_t>(sizeof(T))) && x != y &&
         static_cast<size_t>(layout.channels) % lanes == 0 && reinterpret_cast<uintptr_t>(y) % (lanes * sizeof(T)) == 0;
}

template <bool kRectified, typename T>
HWY_INLINE void Normalize(const T* x, const T* mean, const T* factor, const T* offset, T top,
                          const ChannelLayout& layout, T* y) {
  const hn::ScalableTag<T> d;
  const int64_t channels = layout.channels, inner = layout.inner;
  const auto finished = [=](auto value) HWY_ATTR {
    if constexpr (kRectified) return RectifiedValue(d, value, top);
    return value;
  };
  if (inner == 1) {
    const bool past_caches = WritesPastCaches(d, x, y, layout);
    FromTheEnd<T>(layout, [&](int64_t first, int64_t end) HWY_ATTR {
      for (int64_t row = first; row < end; ++row) {
        const T* const from = x + row * channels;
        T* const to = y + row * channels;
        FetchAhead(from, channels);
        const auto value = [&](auto load) HWY_ATTR {
          return finished(hn::Add(hn::Mul(hn::Sub(load(from), load(mean)), load(factor)), load(offset)));
        };
        if (past_caches) {
          for (int64_t c = 0; c < channels; c += static_cast<int64_t>(hn::Lanes(d)))
            hn::Stream(value([=](const T* p) HWY_ATTR { return hn::LoadU(d, p + c); }), d, to + c);
        } else {
          ForEachVector(d, static_cast<size_t>(channels),
                        [&](auto load, auto store) HWY_ATTR { store(to, value(load)); });
        }
      }
    });
    if (past_caches) hwy::FlushStream();
    return;
  }
  for (int64_t row = 0; row < layout.rows * channels; ++row, x += inner, y += inner) {
    const int64_t c = row % channels;
    const auto from = hn::Set(d, mean[c]), by = hn::Set(d, factor[c]), plus = hn::Set(d, offset[c]);
    ForEachVector(d, static_cast<size_t>(inner), [&](auto load, auto store) HWY_ATTR {
      store(y, finished(hn::Add(hn::Mul(hn::Sub(load(x), from), by), plus)));
    });
  }
}

template <bool kRectified, typename T>
HWY_INLINE void NormalizeGradient(const T* dy, const T* x, const GradientFactors<T>& f, const Rectified<T>& rectified,
                                  const ChannelLayout& layout, T* dx) {
  const hn::ScalableTag<T> d;
  const int64_t channels = layout.channels, inner = layout.inner;
  const T top = kRectified ? rectified.rectifier->top : T{0};
  if (inner == 1) {
    FromTheEnd<T>(layout, [&](int64_t first, int64_t end) HWY_ATTR {
      for (int64_t row = first; row < end; ++row) {
        const T *const of_y = dy + row * channels, *const of_x = x + row * channels;
        T* const to = dx + row * channels;
        FetchAhead(of_y, channels);
        FetchAhead(of_x, channels);
        ForEachVector(d, static_cast<size_t>(channels), [&](auto load, auto store) HWY_ATTR {
          const auto distance = hn::Sub(load(of_x), load(f.mean));
          auto gradient = load(of_y);
          if constexpr (kRectified) {
            const auto value = hn::Add(hn::Mul(distance, load(rectified.factor)), load(rectified.offset));
            gradient = Passed(d, value, top, gradient);
          }
          const auto straight = hn::Sub(hn::Mul(gradient, load(f.scale)), load(f.q));
          store(to, hn::Mul(hn::Sub(straight, hn::Mul(distance, load(f.r))), load(f.factor)));
        });
      }
    });
    return;
  }
  for (int64_t row = 0; row < layout.rows * channels; ++row, dy += inner, x += inner, dx += inner) {
    const int64_t c = row % channels;
    const auto mean = hn::Set(d, f.mean[c]), scale = hn::Set(d, f.scale[c]), q = hn::Set(d, f.q[c]);
    const auto r = hn::Set(d, f.r[c]), factor = hn::Set(d, f.factor[c]);
    const auto by = hn::Set(d, kRectified ? rectified.factor[c] : T{0});
    const auto plus = hn::Set(d, kRectified ? rectified.offset[c] : T{0});
    ForEachVector(d, static_cast<size_t>(inner), [&](auto load, auto store) HWY_ATTR {
      const auto distance = hn::Sub(load(x), mean);
      auto gradient = load(dy);
      if constexpr (kRectified) gradient = Passed(d, hn::Add(hn::Mul(distance, by), plus), top, gradient);
      const auto straight = hn::Sub(hn::Mul(gradient, scale), q);
      store(dx, hn::Mul(hn::Sub(straight, hn::Mul(distance, r)), factor));
    });
  }
}

#define RIVULET_CHANNEL_FUNCTIONS(T, suffix)                                                                         \
  void Moments##suffix(const T* x, const ChannelLayout& layout, double* mean, double* squares, T* scratch) {         \
    Moments(x, layout, mean, squares, scratch);                                                                      \
  }                                                                                                                  \
  void GradientSums##suffix(const T* dy, const T* x, const T* mean, const Rectified<T>& r,                           \
                            const ChannelLayout& layout, double* sum_dy, double* sum_dy_x, T* scratch) {             \
    r.rectifier == nullptr ? GradientSums<false>(dy, x, mean, r, layout, sum_dy, sum_dy_x, scratch)                  \
                           : GradientSums<true>(dy, x, mean, r, layout, sum_dy, sum_dy_x, scratch);                  \
  }                                                                                                                  \
  void Normalize##suffix(const T* x, const T* mean, const T* factor, const T* offset, const Rectifier<T>* rectifier, \
                         const ChannelLayout& layout, T* y) {                                                        \
    rectifier == nullptr ? Normalize<false>(x, mean, factor, offset, T{0}, layout, y)                                \
                         : Normalize<true>(x, mean, factor, offset, rectifier->top, layout, y);                      \
  }                                                                                                                  \
  void NormalizeGradient##suffix(const T* dy, const T* x, const GradientFactors<T>& factors, const Rectified<T>& r,  \
                                 const ChannelLayout& layout, T* dx) {                                               \
    r.rectifier == nullptr ? NormalizeGradient<false>(dy, x, factors, r, layout, dx)                                 \
                           : NormalizeGradient<true>(dy, x, factors, r, layout, dx);                                 \
  }
RIVULET_CHANNEL_FUNCTIONS(float, F32)
RIVULET_CHANNEL_FUNCTIONS(double, F64)

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(MomentsF32);
HWY_EXPORT(MomentsF64);
HWY_EXPORT(GradientSumsF32);
HWY_EXPORT(GradientSumsF64);
HWY_EXPORT(NormalizeF32);
HWY_EXPORT(NormalizeF64);
HWY_EXPORT(NormalizeGradientF32);
HWY_EXPORT(NormalizeGradientF64);

}  // namespace

#define RIVULET_DISPATCHED(T, suffix)                                                                               \
  template <>                                                                                                       \
  void ChannelMoments(const T* x, const ChannelLayout& layout, double* mean, double* squares, T* scratch) {         \
    HWY_DYNAMIC_DISPATCH(Moments##suffix)(x, layout, mean, squares, scratch);                                       \
  }                                                                                                                 \
  template <>                                                                                                       \
  void ChannelGradientSums(const T* dy, const T* x, const T* mean, const Rectified<T>& rectified,                   \
                           const ChannelLayout& layout, double* sum_dy, double* sum_dy_x, T* scratch) {             \
    HWY_DYNAMIC_DISPATCH(GradientSums##suffix)(dy, x, mean, rectified, layout, sum_dy, sum_dy_x, scratch);          \
  }                                                                                                                 \
  template <>                                                                                                       \
  void ChannelNormalize(const T* x, const T* mean, const T* factor, const T* offset, const Rectifier<T>* rectifier, \
                        const ChannelLayout& layout, T* y) {                                                        \
    HWY_DYNAMIC_DISPATCH(Normalize##suffix)(x, mean, factor, offset, rectifier, layout, y);                         \
  }                                                                                                                 \
  template <>                                                                                                       \
  void ChannelNormalizeGradient(const T* dy, const T* x, const GradientFactors<T>& factors,                         \
                                const Rectified<T>& rectified, const ChannelLayout& layout, T* dx) {                \
    HWY_DYNAMIC_DISPATCH(NormalizeGradient##suffix)(dy, x, factors, rectified, layout, dx);                         \
  }
RIVULET_DISPATCHED(float, F32)
RIVULET_DISPATCHED(double, F64)

}  // namespace rivulet
#endif
