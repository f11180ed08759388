// A dense layer's backward pass that loads each weight into registers once. There the weight is added to the input
// gradient's sums, and its gradient, computed from the same vectors of dy, updates it. Two separate passes, one for the
// sums and one for the updates, reach half of the machine's peak. Each element that they load serves few products, and
// a gradient of at most ten products takes as long to start and finish as to sum. Included per target.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/register_block-inl.h"

#if defined(RIVULET_DENSE_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIVULET_DENSE_BACKWARD_INL_H_
#undef RIVULET_DENSE_BACKWARD_INL_H_
#else
#define RIVULET_DENSE_BACKWARD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {

// Two rows of weights by ten of dy are 20 vectors of sums, and with four vectors of weights and four of their gradients
// at a time, 30 of AVX-512's 32 registers are in use.
#define RIVULET_DENSE_IN_REGISTERS (HWY_TARGET <= HWY_AVX3)

#if RIVULET_DENSE_IN_REGISTERS
constexpr int kDenseBatch = 10;  // maximum rows of dy
// Rows of weights whose sums are in memory until all columns are added, and columns of dy per step: both stay in the
// nearest cache.
constexpr int64_t kDenseGroup = 16, kDenseColumns = 512;

struct DenseRows {
  // Each row has `out` elements; the pointers are to the first columns.
  const float* dy;
  const float* from;  // old weights
  float* to;          // new weights
  int64_t out;
  float rate;
  int64_t ahead;  // prefetch distance in elements of `from`, 0 for none
};

// For R rows of weights and B of dy: sums[row of weights][row of dy] += dy · from, each a vector of lanes, and to =
// from - rate · Σ x · dy, where x[row of dy][row of weights].
template <int R, int B>
HWY_INLINE void DenseColumns(const DenseRows& s, const float* HWY_RESTRICT x, int64_t columns, bool first,
                             float* HWY_RESTRICT sums) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[R][B];
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int b = 0; b < B; ++b) sum[r][b] = first ? hn::Zero(d) : hn::Load(d, sums + (r * B + b) * lanes);
  }
  // Processes `vectors` of columns at a time: a gradient is a chain of B sums, so there are as many parallel chains.
  const auto step = [&](int64_t i, auto vectors, auto load, auto store) HWY_ATTR __attribute__((always_inline)) {
    constexpr int kVectors = decltype(vectors)::value;
    V weight[R][kVectors], gradient[R][kVectors];
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float* at = s.from + r * s.out + i + v * lanes;
        weight[r][v] = load(at);
        gradient[r][v] = hn::Zero(d);
        if (s.ahead > 0) __builtin_prefetch(at + s.ahead, 0, 2);
      }
    }
    RIVULET_UNROLL
    for (int b = 0; b < B; ++b) {
      V dy[kVectors];
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) dy[v] = load(s.dy + b * s.out + i + v * lanes);
      RIVULET_UNROLL
      for (int r = 0; r < R; ++r) {
        RIVULET_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sum[r][b] = hn::MulAdd(dy[v], weight[r][v], sum[r][b]);
          gradient[r][v] = hn::MulAdd(hn::Set(d, x[b * R + r]), dy[v], gradient[r][v]);
        }
      }
    }
    const V rate = hn::Set(d, s.rate);
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v)
        store(hn::Sub(weight[r][v], hn::Mul(rate, gradient[r][v])), s.to + r * s.out + i + v * lanes);
    }
  };
  int64_t i = 0;
  const auto load = [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); };
  const auto store = [&](V v, float* at) HWY_ATTR { hn::StoreU(v, d, at); };
  for (; i + 2 * lanes <= columns; i += 2 * lanes) step(i, std::integral_constant<int, 2>(), load, store);
  for (; i + lanes <= columns; i += lanes) step(i, std::integral_constant<int, 1>(), load, store);
  if (i < columns) {
    const size_t tail = static_cast<size_t>(columns - i);
    step(
        i, std::integral_constant<int, 1>(), [&](const float* at) HWY_ATTR { return LoadTail(d, at, tail); },
        [&](V v, float* at) HWY_ATTR { StoreTail(v, d, at, tail); });
  }
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int b = 0; b < B; ++b) hn::Store(sum[r][b], d, sums + (r * B + b) * lanes);
  }
}

template <int B>
void DenseGroup(const DenseRows& group, const float* x, int64_t rows, int64_t columns, bool first, float* sums) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  DenseRows s = group;
  int64_t row = 0;
  for (; row + 2 <= rows; row += 2, s.from += 2 * s.out, s.to += 2 * s.out, x += 2 * B, sums += 2 * B * kLanes)
    DenseColumns<2, B>(s, x, columns, first, sums);
  if (row < rows) DenseColumns<1, B>(s, x, columns, first, sums);
}

using DenseGroupFn = void (*)(const DenseRows&, const float*, int64_t, int64_t, bool, float*);
template <int... B>
DenseGroupFn DenseGroupFor(int64_t batch, std::integer_sequence<int, B...>) {
  static constexpr DenseGroupFn kTable[] = {&DenseGroup<B + 1>...};
  return kTable[batch - 1];
}

// DenseBackwardDescent for up to kDenseBatch rows of dy.
HWY_INLINE void DenseBackwardInRegisters(const float* x, const float* dy, float rate, const float* from, float* weights,
                                         float* dx, int64_t batch, int64_t in, int64_t out) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN float sums[kDenseGroup * kDenseBatch * kLanes], values[kDenseGroup * kDenseBatch];
  HWY_ALIGN float of_rows[kDenseGroup * kDenseBatch];
  const DenseGroupFn group = DenseGroupFor(batch, std::make_integer_sequence<int, kDenseBatch>());
  for (int64_t row = 0; row < in; row += kDenseGroup) {
    const int64_t rows = std::min(kDenseGroup, in - row), count = rows * batch;
    // x in the order of the row pairs: [pair][row of dy][row of the pair]; a last odd row is alone.
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t pair = r / 2 * 2, width = std::min<int64_t>(2, rows - pair);
      for (int64_t b = 0; b < batch; ++b) of_rows[pair * batch + b * width + r % 2] = x[b * in + row + r];
    }
    DenseRows s{.dy = dy,
                .from = from + row * out,
                .to = weights + row * out,
                .out = out,
                .rate = rate,
                .ahead = row + 2 * kDenseGroup <= in ? kDenseGroup * out : 0};
    for (int64_t column = 0; column < out; column += kDenseColumns) {
      const int64_t columns = std::min(kDenseColumns, out - column);
      group(s, of_rows, rows, columns, column == 0, sums);
      s.dy += columns;
      s.from += columns;
      s.to += columns;
    }
    const D d;
    for (int64_t i = count; i < (count + kLanes - 1) / kLanes * kLanes; ++i)
      hn::Store(hn::Zero(d), d, sums + i * kLanes);
    for (int64_t i = 0; i < count; i += kLanes) hn::Store(LaneSumsOf(d, sums + i * kLanes), d, values + i);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < batch; ++b) dx[b * in + row + r] = values[r * batch + b];
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#endif
