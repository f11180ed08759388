#include "engine/kernels/cpu/reduction/softmax_rows.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "engine/base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/reduction/softmax_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/lane_sums-inl.h"
#include "engine/kernels/cpu/vector/largest_lane-inl.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLanes = 16, kBlock = 512;
using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;
constexpr size_t kVector = hn::MaxLanes(D()), kVectors = kLanes / kVector;

// The sum over a row of f(load, store), where load(p) gives a vector of elements and store(p, v) writes there.
template <class F>
HWY_INLINE double SumOverRow(size_t count, F f) {
  const D d;
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    V sum[kVectors];
    for (V& s : sum) s = hn::Zero(d);
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t k = 0; k < kVectors; ++k) {
        const size_t at = i + k * kVector;
        sum[k] = hn::Add(sum[k], f([=](const float* p) HWY_ATTR { return hn::LoadU(d, p + at); },
                                   [=](float* p, V v) HWY_ATTR { hn::StoreU(v, d, p + at); }));
      }
    }
    for (size_t k = 0; i < end; ++k, i += kVector) {
      const size_t rest = std::min(end - i, kVector);
      const V v = f([=](const float* p) HWY_ATTR { return LoadTail(d, p + i, rest); },
                    [=](float* p, V x) HWY_ATTR { StoreTail(x, d, p + i, rest); });
      sum[k] = hn::Add(sum[k], hn::IfThenElseZero(hn::FirstN(d, rest), v));
    }
    total += static_cast<double>(JoinLanes(d, sum));
  }
  return total;
}

HWY_INLINE V Larger(V a, V b) { return hn::IfThenElse(hn::Gt(a, b), a, b); }

// The largest element, ignoring NaN, which makes the row's sum of exponentials NaN.
HWY_INLINE float LargestOfRow(const float* row, size_t count) {
  const D d;
  const V least = hn::Set(d, -std::numeric_limits<float>::infinity());
  V largest[4] = {least, least, least, least};
  size_t i = 0;
  for (; i + 4 * kVector <= count; i += 4 * kVector) RIVULET_UNROLL
  for (size_t k = 0; k < 4; ++k) largest[k] = Larger(hn::LoadU(d, row + i + k * kVector), largest[k]);
  for (; i + kVector <= count; i += kVector) largest[0] = Larger(hn::LoadU(d, row + i), largest[0]);
  if (i < count) {
    const size_t rest = count - i;
    largest[1] = Larger(hn::IfThenElse(hn::FirstN(d, rest), LoadTail(d, row + i, rest), least), largest[1]);
  }
  return LargestLane(d, Larger(Larger(largest[0], largest[1]), Larger(largest[2], largest[3])));
}

// Rows that go through each step together, so that none waits for its own largest element, sum and quotient; few enough
// to stay in the nearest cache.
constexpr size_t kRowsAtOnce = 16;
HWY_INLINE size_t RowsAtOnce(size_t classes) { return std::clamp<size_t>(4096 / (classes + 1), 1, kRowsAtOnce); }

// Groups of kLanes elements whose exponentials are computed in parallel, as registers allow.
constexpr size_t kSide = kVector == kLanes ? 4 : 1;

// Passes the exponentials of kGroups · kLanes elements to store(offset, v) and adds them to the lanes.
template <size_t kGroups, class Store>
HWY_INLINE void AddExps(const float* in, V by, V (&sum)[kVectors], Store store) {
  const D d;
  V exps[kGroups * kVectors];
  RIVULET_UNROLL
  for (size_t k = 0; k < kGroups * kVectors; ++k) exps[k] = hn::Sub(hn::LoadU(d, in + k * kVector), by);
  ExpsOfNonPositive(d, exps);
  RIVULET_UNROLL
  for (size_t k = 0; k < kGroups * kVectors; ++k) {
    store(k * kVector, exps[k]);
    sum[k % kVectors] = hn::Add(sum[k % kVectors], exps[k]);
  }
}

// The sum over a row of e^(in - largest), with the bits of SumOverRow. store(offset, v) and store_tail(offset, v,
// count) receive the exponentials.
template <class Store, class StoreRest>
HWY_INLINE double ExpsOfRow(const float* in, float largest, size_t count, Store store, StoreRest store_tail) {
  const D d;
  const V by = hn::Set(d, largest);
  double total = 0;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    V sum[kVectors];
    for (V& s : sum) s = hn::Zero(d);
    size_t i = begin;
    const auto store_here = [&](size_t offset, V v) HWY_ATTR { store(i + offset, v); };
    for (; i + kSide * kLanes <= end; i += kSide * kLanes) AddExps<kSide>(in + i, by, sum, store_here);
    for (; i + kLanes <= end; i += kLanes) AddExps<1>(in + i, by, sum, store_here);
    for (size_t k = 0; i < end; ++k, i += kVector) {
      const size_t rest = std::min(end - i, kVector);
      const V e = ExpOfNonPositive(d, hn::Sub(LoadTail(d, in + i, rest), by));
      store_tail(i, e, rest);
      sum[k] = hn::Add(sum[k], hn::IfThenElseZero(hn::FirstN(d, rest), e));
    }
    total += static_cast<double>(JoinLanes(d, sum));
  }
  return total;
}

HWY_INLINE double SumOfExps(const float* in, float largest, size_t count) {
  return ExpsOfRow(
      in, largest, count, [](size_t, V) {}, [](size_t, V, size_t) {});
}

// Writes the exponentials to `out`, and returns their sum.
HWY_INLINE double StoreExps(const float* in, float largest, float* out, size_t count) {
  const D d;
  return ExpsOfRow(
      in, largest, count, [=](size_t i, V e) HWY_ATTR { hn::StoreU(e, d, out + i); },
      [=](size_t i, V e, size_t rest) HWY_ATTR { StoreTail(e, d, out + i, rest); });
}

HWY_INLINE void Scale(float* row, float factor, size_t count) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, factor);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(row, hn::Mul(load(row), by)); });
}

// Rows of at most 16 elements: their exponentials are kept in separate whole vectors. Data from a masked store cannot
// be loaded before it has left the processor's store buffer, and neither can the next row.
HWY_INLINE void ShortSoftmax(const float* in, float* out, size_t rows, size_t classes) {
  const D d;
  HWY_ALIGN float exps[kRowsAtOnce][kLanes];
  float sums[kRowsAtOnce], factors[kRowsAtOnce];
  const V least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto count_of = [classes](size_t k) { return std::min(classes - std::min(classes, k * kVector), kVector); };
  for (size_t first = 0; first < rows;
       first += kRowsAtOnce, in += kRowsAtOnce * classes, out += kRowsAtOnce * classes) {
    const size_t count = std::min(kRowsAtOnce, rows - first);
    for (size_t group = 0; group < count; group += kSide) {
      V row[kSide * kVectors];
      RIVULET_UNROLL
      for (size_t r = 0; r < kSide; ++r) {
        // In an incomplete group the last row replaces missing ones.
        const float* from = in + std::min(group + r, count - 1) * classes;
        V largest = least;
        RIVULET_UNROLL
        for (size_t k = 0; k < kVectors; ++k) {
          const size_t within = count_of(k);
          row[r * kVectors + k] = LoadTail(d, from + std::min(classes, k * kVector), within);
          largest = Larger(hn::IfThenElse(hn::FirstN(d, within), row[r * kVectors + k], least), largest);
        }
        const V by = hn::Set(d, LargestLane(d, largest));
        RIVULET_UNROLL
        for (size_t k = 0; k < kVectors; ++k) row[r * kVectors + k] = hn::Sub(row[r * kVectors + k], by);
      }
      ExpsOfNonPositive(d, row);
      V lanes[kSide][kVectors];
      RIVULET_UNROLL
      for (size_t r = 0; r < kSide; ++r) {
        RIVULET_UNROLL
        for (size_t k = 0; k < kVectors; ++k) {
          const V e = hn::IfThenElseZero(hn::FirstN(d, count_of(k)), row[r * kVectors + k]);
          hn::Store(e, d, exps[group + r] + k * kVector);
          lanes[r][k] = hn::Add(hn::Zero(d), e);
        }
      }
      float joined[kSide];
      JoinRows(d, lanes, joined);
      std::copy_n(joined, kSide, sums + group);
    }
    for (size_t r = 0; r < count; ++r) factors[r] = static_cast<float>(1.0 / static_cast<double>(sums[r]));
    for (size_t r = 0; r < count; ++r) {
      const V factor = hn::Set(d, factors[r]);
      for (size_t k = 0; k * kVector < classes; ++k)
        StoreTail(hn::Mul(hn::Load(d, exps[r] + k * kVector), factor), d, out + r * classes + k * kVector, count_of(k));
    }
  }
}

void SoftmaxF32(const float* in, float* out, size_t rows, size_t classes) {
  if (classes <= kLanes) return ShortSoftmax(in, out, rows, classes);
  const size_t at_once = RowsAtOnce(classes);
  float largest[kRowsAtOnce], factors[kRowsAtOnce];
  for (size_t first = 0; first < rows; first += at_once, in += at_once * classes, out += at_once * classes) {
    const size_t count = std::min(at_once, rows - first);
    for (size_t r = 0; r < count; ++r) largest[r] = LargestOfRow(in + r * classes, classes);
    for (size_t r = 0; r < count; ++r)
      factors[r] = static_cast<float>(1.0 / StoreExps(in + r * classes, largest[r], out + r * classes, classes));
    for (size_t r = 0; r < count; ++r) Scale(out + r * classes, factors[r], classes);
  }
}

void LogSoftmaxF32(const float* in, float* out, size_t rows, size_t classes) {
  const hn::ScalableTag<float> d;
  for (size_t row = 0; row < rows; ++row, in += classes, out += classes) {
    const float largest = LargestOfRow(in, classes);
    const auto by = hn::Set(d, largest);
    const auto log_sum = hn::Set(d, static_cast<float>(math::Log(SumOfExps(in, largest, classes))));
    ForEachVector(d, classes,
                  [&](auto load, auto store) HWY_ATTR { store(out, hn::Sub(hn::Sub(load(in), by), log_sum)); });
  }
}

void CrossEntropyF32(const float* features, const float* labels, float* loss, float* backprop, size_t rows,
                     size_t classes) {
  const D d;
  for (size_t row = 0; row < rows; ++row, features += classes, labels += classes, backprop += classes) {
    const float largest = LargestOfRow(features, classes);
    const double sum = SumOfExps(features, largest, classes);
    const V by = hn::Set(d, largest), log_sum = hn::Set(d, static_cast<float>(math::Log(sum)));
    const V inverse = hn::Set(d, static_cast<float>(1.0 / sum));
    // Each element's label and feature are read before its gradient may overwrite them.
    const double total = SumOverRow(classes, [&](auto load, auto store) HWY_ATTR {
      const V label = load(labels), shifted = hn::Sub(load(features), by);
      store(backprop, hn::Sub(hn::Mul(ExpOfNonPositive(d, shifted), inverse), label));
      const V term = hn::Mul(label, hn::Sub(log_sum, shifted));
      return hn::IfThenZeroElse(hn::Eq(label, hn::Zero(d)), term);  // 0 · inf counts as 0
    });
    loss[row] = static_cast<float>(total);
  }
}

void SparseCrossEntropyF32(const float* features, const int64_t* labels, float* loss, float* backprop, size_t rows,
                           size_t classes) {
  const size_t at_once = RowsAtOnce(classes);
  float largest[kRowsAtOnce], of_label[kRowsAtOnce];
  double sums[kRowsAtOnce];
  for (size_t first = 0; first < rows; first += at_once) {
    const size_t count = std::min(at_once, rows - first);
    const float* in = features + first * classes;
    float* out = backprop + first * classes;
    for (size_t r = 0; r < count; ++r) {
      largest[r] = LargestOfRow(in + r * classes, classes);
      of_label[r] = in[r * classes + static_cast<size_t>(labels[first + r])] - largest[r];
    }
    for (size_t r = 0; r < count; ++r) sums[r] = StoreExps(in + r * classes, largest[r], out + r * classes, classes);
    for (size_t r = 0; r < count; ++r)
      loss[first + r] = static_cast<float>(math::Log(sums[r]) - static_cast<double>(of_label[r]));
    for (size_t r = 0; r < count; ++r) {
      Scale(out + r * classes, static_cast<float>(1.0 / sums[r]), classes);
      out[r * classes + static_cast<size_t>(labels[first + r])] -= 1.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(SoftmaxF32);
HWY_EXPORT(LogSoftmaxF32);
HWY_EXPORT(CrossEntropyF32);
HWY_EXPORT(SparseCrossEntropyF32);

double Largest(const double* row, int64_t count) {
  double largest = row[0];
  for (int64_t i = 1; i < count; ++i) largest = row[i] > largest || row[i] != row[i] ? row[i] : largest;
  return largest;
}

// In eight virtual lanes: the order is fixed, and there is more than one chain.
template <typename F>
double SumOf(int64_t count, F f) {
  double lanes[8] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i & 7] += f(i);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

double StoreExps(const double* in, double largest, double* out, int64_t count) {
  return SumOf(count, [&](int64_t i) { return out[i] = math::Exp(in[i] - largest); });
}

}  // namespace

void SoftmaxRows(const float* in, float* out, int64_t rows, int64_t classes) {
  HWY_DYNAMIC_DISPATCH(SoftmaxF32)(in, out, static_cast<size_t>(rows), static_cast<size_t>(classes));
}
void LogSoftmaxRows(const float* in, float* out, int64_t rows, int64_t classes) {
  HWY_DYNAMIC_DISPATCH(LogSoftmaxF32)(in, out, static_cast<size_t>(rows), static_cast<size_t>(classes));
}
void CrossEntropyRows(const float* features, const float* labels, float* loss, float* backprop, int64_t rows,
                      int64_t classes) {
  HWY_DYNAMIC_DISPATCH(CrossEntropyF32)
  (features, labels, loss, backprop, static_cast<size_t>(rows), static_cast<size_t>(classes));
}
void SparseCrossEntropyRows(const float* features, const int64_t* labels, float* loss, float* backprop, int64_t rows,
                            int64_t classes) {
  HWY_DYNAMIC_DISPATCH(SparseCrossEntropyF32)
  (features, labels, loss, backprop, static_cast<size_t>(rows), static_cast<size_t>(classes));
}

void SoftmaxRows(const double* in, double* out, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row, in += classes, out += classes) {
    const double sum = StoreExps(in, Largest(in, classes), out, classes);
    for (int64_t i = 0; i < classes; ++i) out[i] /= sum;
  }
}
void LogSoftmaxRows(const double* in, double* out, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row, in += classes, out += classes) {
    const double largest = Largest(in, classes);
    const double log_sum = math::Log(SumOf(classes, [&](int64_t i) { return math::Exp(in[i] - largest); }));
    for (int64_t i = 0; i < classes; ++i) out[i] = (in[i] - largest) - log_sum;
  }
}
void CrossEntropyRows(const double* features, const double* labels, double* loss, double* backprop, int64_t rows,
                      int64_t classes) {
  for (int64_t row = 0; row < rows; ++row, features += classes, labels += classes, backprop += classes) {
    const double largest = Largest(features, classes);
    const double sum = SumOf(classes, [&](int64_t i) { return math::Exp(features[i] - largest); });
    const double log_sum = math::Log(sum);
    loss[row] = SumOf(classes, [&](int64_t i) {
      const double label = labels[i], shifted = features[i] - largest;
      backprop[i] = math::Exp(shifted) / sum - label;
      return label != 0 ? label * (log_sum - shifted) : 0.0;
    });
  }
}
void SparseCrossEntropyRows(const double* features, const int64_t* labels, double* loss, double* backprop, int64_t rows,
                            int64_t classes) {
  for (int64_t row = 0; row < rows; ++row, features += classes, backprop += classes) {
    const double largest = Largest(features, classes);
    const double of_label = features[labels[row]] - largest;
    const double sum = StoreExps(features, largest, backprop, classes);
    loss[row] = math::Log(sum) - of_label;
    for (int64_t i = 0; i < classes; ++i) backprop[i] /= sum;
    backprop[labels[row]] -= 1;
  }
}

}  // namespace rivulet
#endif
