#include "engine/kernels/cpu/attention/attention_tiles.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/attention/attention_tiles.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/fused_math-inl.h"
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/largest_lane-inl.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = AttentionHead::kVectorFloats;
using D16 = hn::CappedTag<float, kLanes>;
using V16 = hn::Vec<D16>;
constexpr int64_t kVector = hn::MaxLanes(D16()), kVectors = kLanes / kVector;
static_assert(kGradientQueries % kRows == 0 && kRows <= kTileQueries && kTileQueries <= kLanes);

constexpr int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

HWY_INLINE int64_t Visible(const AttentionHead& h, int64_t t) {
  return std::clamp<int64_t>(h.first_visible + t * h.further, 0, h.keys);
}

#if HWY_TARGET != HWY_SCALAR
// Four adjacent elements per block of a vector; blocks are `stride` elements apart.
template <class D>
HWY_INLINE hn::Vec<D> FourOfEach(D d, const float* from, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kBlocks = hn::MaxLanes(hn::Half<D>()) / 4;
    return hn::Combine(d, FourOfEach(half, from + kBlocks * stride, stride), FourOfEach(half, from, stride));
  }
}

// Transposes a vector of keys in four columns to rows of `to`: block i has keys 4·i to 4·i + 3. An equivalent gather
// takes as long as five of these.
HWY_INLINE void TransposeFour(const float* from, int64_t size, float* to, int64_t stride) {
  const D d;
  const hn::Repartition<double, D> pairs;
  const auto row = [&](int64_t key) HWY_ATTR { return FourOfEach(d, from + key * size, 4 * size); };
  const auto store = [&](int64_t column, hn::Vec<hn::Repartition<double, D>> v)
                         HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, to + column * stride); };
  const V a = row(0), b = row(1), c = row(2), e = row(3);
  const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto low2 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             high2 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  store(0, hn::InterleaveLower(pairs, low, low2));
  store(1, hn::InterleaveUpper(pairs, low, low2));
  store(2, hn::InterleaveLower(pairs, high, high2));
  store(3, hn::InterleaveUpper(pairs, high, high2));
}
#endif

void TransposeHead(const AttentionHead& h, const float* from, int64_t size, float* to) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), stride = h.stride();
  const auto rows = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(size)));
  int64_t key = 0;
  for (; key + lanes <= h.keys; key += lanes) {
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; k + 4 <= size; k += 4) TransposeFour(from + key * size + k, size, to + k * stride + key, stride);
#endif
    for (; k < size; ++k) hn::StoreU(hn::GatherIndex(d, from + key * size + k, rows), d, to + k * stride + key);
  }
  for (int64_t k = 0; k < size; ++k) {
    for (int64_t rest = key; rest < h.keys; ++rest) to[k * stride + rest] = from[rest * size + k];
    std::fill(to + k * stride + h.keys, to + (k + 1) * stride, 0.0f);
  }
}

// c[rows, stride] = a[rows, depth] · b[depth, stride] for the first `count` columns, rounded up to whole vectors.
HWY_INLINE void Products(const AttentionHead& h, const float* a, const float* b, int64_t depth, float* c, int64_t rows,
                         int64_t count) {
  BlockShape s;
  s.a_row = s.depth = depth;
  s.n = h.stride();
  const int64_t one = static_cast<int64_t>(hn::Lanes(D())), two = 2 * one;
  const BlockFn block = BlockFor(rows);
  for (int64_t column = 0; column < count; column += two)
    block(s, a, b + column, c + column, column + one < count ? two : one);
}

// c[rows, n] (+)= Σ over `depth` of a's rows (a_row apart, terms a_k apart) · b[depth, n].
HWY_INLINE void Combine(const float* a, int64_t a_row, int64_t a_k, const float* b, float* c, int64_t rows, int64_t n,
                        int64_t depth, bool add) {
  BlockShape s;
  s.a_row = a_row, s.a_k = a_k, s.n = n, s.depth = depth, s.add = add;
  const int64_t two = 2 * static_cast<int64_t>(hn::Lanes(D()));
  const BlockFn block = BlockFor(rows);
  for (int64_t column = 0; column < n; column += two) block(s, a, b + column, c + column, std::min(two, n - column));
}

HWY_INLINE void ZeroFrom(float* row, int64_t begin, int64_t end) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; begin < end; begin += lanes) hn::StoreU(hn::Zero(d), d, row + begin);
}

// Calls f(at, load, mask) for the vectors of the first `visible` elements; mask(v) sets elements beyond them to zero.
template <class F>
HWY_INLINE void ForEach16(int64_t visible, F f) {
  const D16 d;
  int64_t i = 0;
  for (; i + kLanes <= visible; i += kLanes)
    for (int64_t k = 0; k < kVectors; ++k) f(i + k * kVector, k, [](V16 v) HWY_ATTR { return v; });
  for (int64_t k = 0; i < visible; ++k, i += kVector) {
    const auto within = hn::FirstN(d, static_cast<size_t>(std::min(visible - i, kVector)));
    f(i, k, [within](V16 v) HWY_ATTR { return hn::IfThenElseZero(within, v); });
  }
}

HWY_INLINE float Largest(const float* row, int64_t count) {
  const D16 d;
  const V16 least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto larger = [](V16 a, V16 b) HWY_ATTR { return hn::IfThenElse(hn::Gt(a, b), a, b); };
  V16 largest = least;
  int64_t i = 0;
  for (; i + kVector <= count; i += kVector) largest = larger(hn::LoadU(d, row + i), largest);
  if (i < count) {
    const auto within = hn::FirstN(d, static_cast<size_t>(count - i));
    largest = larger(hn::IfThenElse(within, hn::LoadU(d, row + i), least), largest);
  }
  return LargestLane(d, largest);
}

// row[i] = e^(row[i] · scale - shift) for the first `visible`, then 0 up to the next vector; returns the sum.
HWY_INLINE double ExpRow(float* row, float scale, float shift, int64_t visible) {
  constexpr int64_t kBlock = 512;  // sums of blocks are joined in double
  const D16 d;
  const V16 by = hn::Set(d, scale), less = hn::Set(d, shift);
  double total = 0;
  for (int64_t begin = 0; begin < visible; begin += kBlock) {
    V16 sum[kVectors];
    for (V16& s : sum) s = hn::Zero(d);
    float* const from = row + begin;
    ForEach16(std::min(kBlock, visible - begin), [&](int64_t at, int64_t k, auto mask) HWY_ATTR {
      const V16 e = mask(FusedExp(d, hn::MulSub(hn::LoadU(d, from + at), by, less)));
      hn::StoreU(e, d, from + at);
      sum[k] = hn::Add(sum[k], e);
    });
    total += static_cast<double>(JoinLanes(d, sum));
  }
  return total;
}

// Converts a tile's scores to exponentials, with zeros up to `end`; computes each row's `log_sum` and the factor that
// converts exponentials to probabilities.
HWY_INLINE void SoftmaxTile(const AttentionHead& h, int64_t t, int64_t rows, int64_t end, float* scores, float* log_sum,
                            float* factors) {
  const float infinity = std::numeric_limits<float>::infinity();
  HWY_ALIGN float sums[kLanes], shifts[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) sums[r] = 1, shifts[r] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * h.stride();
    int64_t visible = Visible(h, t + r);
    const float largest = Largest(row, visible);
    bool unseen = largest == -infinity;
    for (int64_t j = 0; unseen && j < visible; ++j) unseen = row[j] == row[j];  // a row with NaN is not unseen
    if (unseen) visible = 0;
    shifts[r] = unseen ? -infinity : largest * h.scale;
    if (!unseen) sums[r] = static_cast<float>(ExpRow(row, h.scale, shifts[r], visible));
    ZeroFrom(row, RoundUp(visible, kVector), end);
  }
  const D16 d;
  for (int64_t r = 0; r < rows; r += kVector) {
    const V16 sum = hn::Load(d, sums + r);
    const size_t count = static_cast<size_t>(std::min(rows - r, kVector));
    hn::Store(hn::Div(hn::Set(d, 1.0f), sum), d, factors + r);
    StoreTail(hn::Add(hn::Load(d, shifts + r), LogOf(d, sum)), d, log_sum + r, count);
  }
}

void ForwardHead(const AttentionHead& h, const float* query, const float* keys, const float* value, float* output,
                 float* log_sum, float* scores) {
  const D d;
  HWY_ALIGN float factors[kLanes];
  for (int64_t t = 0; t < h.time; t += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, h.time - t), seen = Visible(h, t + rows - 1);
    Products(h, query + t * h.depth, keys, h.depth, scores, rows, seen);
    SoftmaxTile(h, t, rows, seen, scores, log_sum + t, factors);
    float* const out = output + t * h.width;
    Combine(scores, h.stride(), 1, value, out, rows, h.width, seen, false);
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = out + r * h.width;
      const auto by = hn::Set(d, factors[r]);
      ForEachVector(d, static_cast<size_t>(h.width),
                    [&](auto load, auto store) HWY_ATTR { store(row, hn::Mul(load(row), by)); });
    }
  }
}

// Computes the gradient of a row's scores from that of its probabilities: g[i] = p[i] · (g[i] - mean) · scale, after
// p[i] = e^(p[i] · scale - log_sum).
HWY_INLINE void GradientRow(float* p, float* g, float scale, float log_sum, float mean, int64_t visible) {
  const D16 d;
  const V16 by = hn::Set(d, scale), less = hn::Set(d, log_sum), offset = hn::Set(d, mean);
  ForEach16(visible, [&](int64_t at, int64_t, auto mask) HWY_ATTR {
    const V16 e = mask(FusedExp(d, hn::MulSub(hn::LoadU(d, p + at), by, less)));
    hn::StoreU(e, d, p + at);
    hn::StoreU(mask(hn::Mul(hn::Mul(e, by), hn::Sub(hn::LoadU(d, g + at), offset))), d, g + at);
  });
}

HWY_INLINE float DotOf(const float* a, const float* b, int64_t count) {
  float sum[1];
  LaneSums<1>(
      static_cast<size_t>(count), [&](auto load, auto add) HWY_ATTR { add(0, hn::Mul(load(a), load(b))); }, sum);
  return sum[0];
}

void BackwardHead(const AttentionHead& h, const AttentionHeadGradients& g) {
  const int64_t stride = h.stride();
  float *const p = g.scores, *const grads = g.scores + kGradientQueries * stride;
  for (int64_t t = 0; t < h.time; t += kGradientQueries) {
    const int64_t rows = std::min(kGradientQueries, h.time - t), seen = Visible(h, t + rows - 1);
    const float *query = g.query + t * h.depth, *output_grad = g.output_grad + t * h.width;
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t tile = std::min<int64_t>(kRows, rows - row), tile_seen = Visible(h, t + row + tile - 1);
      Products(h, query + row * h.depth, g.transposed_keys, h.depth, p + row * stride, tile, tile_seen);
      Products(h, output_grad + row * h.width, g.transposed_values, h.width, grads + row * stride, tile, tile_seen);
      for (int64_t r = row; r < row + tile; ++r) {
        const float log_sum = g.log_sum[t + r];
        const int64_t visible = log_sum == -std::numeric_limits<float>::infinity() ? 0 : Visible(h, t + r);
        const float mean = DotOf(g.output + (t + r) * h.width, output_grad + r * h.width, h.width);
        GradientRow(p + r * stride, grads + r * stride, h.scale, log_sum, mean, visible);
        // As far as a block of keys that starts within the tile's may extend.
        ZeroFrom(p + r * stride, RoundUp(visible, kVector), tile_seen + kRows);
        ZeroFrom(grads + r * stride, RoundUp(visible, kVector), tile_seen + kRows);
      }
      Combine(grads + row * stride, stride, 1, g.key, g.query_grad + (t + row) * h.depth, tile, h.depth, tile_seen,
              false);
    }
    // Each block of keys gets gradients from the tiles that see its first key, which are the last ones.
    int64_t first = 0;
    for (int64_t key = 0; key < seen; key += kRows) {
      while (Visible(h, t + std::min(first + kRows, rows) - 1) <= key) first += kRows;
      const int64_t keys = std::min<int64_t>(kRows, seen - key);
      Combine(grads + first * stride + key, 1, stride, query + first * h.depth, g.key_grad + key * h.depth, keys,
              h.depth, rows - first, true);
      Combine(p + first * stride + key, 1, stride, output_grad + first * h.width, g.value_grad + key * h.width, keys,
              h.width, rows - first, true);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(TransposeHead);
HWY_EXPORT(ForwardHead);
HWY_EXPORT(BackwardHead);

void TransposeOfHead(const AttentionHead& head, const float* from, int64_t size, float* to) {
  HWY_DYNAMIC_DISPATCH(TransposeHead)(head, from, size, to);
}
void AttentionOfHead(const AttentionHead& head, const float* query, const float* transposed_keys, const float* value,
                     float* output, float* log_sum, float* scores) {
  HWY_DYNAMIC_DISPATCH(ForwardHead)(head, query, transposed_keys, value, output, log_sum, scores);
}
void AttentionGradientOfHead(const AttentionHead& head, const AttentionHeadGradients& g) {
  HWY_DYNAMIC_DISPATCH(BackwardHead)(head, g);
}

}  // namespace rivulet
#endif
