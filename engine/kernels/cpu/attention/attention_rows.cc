#include "engine/kernels/cpu/attention/attention_rows.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/attention/attention_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kSumLanes = 8;
using Doubles = hn::CappedTag<double, kSumLanes>;
constexpr size_t kWide = hn::MaxLanes(Doubles()), kSumVectors = kSumLanes / kWide;
using Floats = hn::Rebind<float, Doubles>;

HWY_INLINE double Joined(const hn::Vec<Doubles> (&sums)[kSumVectors]) {
  HWY_ALIGN double lanes[kSumLanes];
  for (size_t k = 0; k < kSumVectors; ++k) hn::Store(sums[k], Doubles(), lanes + k * kWide);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// The sum over a row of f(load), a vector of Doubles; lanes beyond the row are ignored.
template <class F>
HWY_INLINE double SumOfDoubles(size_t count, F f) {
  const Doubles d;
  const Floats floats;
  hn::Vec<Doubles> sums[kSumVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (size_t k = 0; k < kSumVectors; ++k) {
      const size_t at = i + k * kWide;
      sums[k] = hn::Add(sums[k], f([=](const float* p) HWY_ATTR { return hn::LoadU(floats, p + at); }));
    }
  }
  for (size_t k = 0; i < count; ++k, i += kWide) {
    const size_t rest = std::min(count - i, kWide);
    const auto value = f([=](const float* p) HWY_ATTR { return LoadTail(floats, p + i, rest); });
    sums[k] = hn::Add(sums[k], hn::IfThenElseZero(hn::FirstN(d, rest), value));
  }
  return Joined(sums);
}

void ScaleScores(float* row, float factor, size_t count) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, factor);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(row, hn::Mul(load(row), by)); });
}

float LargestScore(const float* row, size_t count) {
  const hn::CappedTag<float, 16> d;
  constexpr size_t kLanes = hn::MaxLanes(hn::CappedTag<float, 16>());
  const auto least = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto larger = [](auto a, auto b) HWY_ATTR { return hn::IfThenElse(hn::Gt(a, b), a, b); };
  auto first = least, second = least;
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    first = larger(hn::LoadU(d, row + i), first);
    second = larger(hn::LoadU(d, row + i + kLanes), second);
  }
  for (; i < count; i += kLanes) {
    const size_t rest = std::min(count - i, kLanes);
    first = larger(hn::IfThenElse(hn::FirstN(d, rest), LoadTail(d, row + i, rest), least), first);
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(larger(first, second), d, lanes);
  float largest = lanes[0];
  for (size_t lane = 1; lane < kLanes; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

// Two passes: exponentials use the widest vectors, and their sum is in double.
double ExpAndSumScores(float* row, float shift, size_t count) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, shift);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(row, ExpOf(d, hn::Sub(load(row), by))); });
  return SumOfDoubles(count, [&](auto load) HWY_ATTR { return hn::PromoteTo(Doubles(), load(row)); });
}

double DotDoubles(const float* a, const float* b, size_t count) {
  const Doubles d;
  return SumOfDoubles(
      count, [&](auto load) HWY_ATTR { return hn::Mul(hn::PromoteTo(d, load(a)), hn::PromoteTo(d, load(b))); });
}

void ScoreGradient(const float* probability, float mean, float* gradient, size_t count) {
  const hn::ScalableTag<float> d;
  const auto less = hn::Set(d, mean);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR {
    store(gradient, hn::Mul(load(probability), hn::Sub(load(gradient), less)));
  });
}

void TimesSlope(const float* slope, float* gradient, size_t count) {
  const hn::ScalableTag<float> d;
  ForEachVector(d, count,
                [&](auto load, auto store) HWY_ATTR { store(gradient, hn::Mul(load(gradient), load(slope))); });
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(ScaleScores);
HWY_EXPORT(LargestScore);
HWY_EXPORT(ExpAndSumScores);
HWY_EXPORT(DotDoubles);
HWY_EXPORT(ScoreGradient);
HWY_EXPORT(TimesSlope);

void ScaleRow(float* row, float factor, size_t count) { HWY_DYNAMIC_DISPATCH(ScaleScores)(row, factor, count); }
float LargestOfRow(const float* row, size_t count) { return HWY_DYNAMIC_DISPATCH(LargestScore)(row, count); }
double ExpAndSumOfRow(float* row, float shift, size_t count) {
  return HWY_DYNAMIC_DISPATCH(ExpAndSumScores)(row, shift, count);
}
double DotOfRows(const float* a, const float* b, size_t count) { return HWY_DYNAMIC_DISPATCH(DotDoubles)(a, b, count); }
void SoftmaxGradientOfRow(const float* probability, float mean, float* gradient, size_t count) {
  HWY_DYNAMIC_DISPATCH(ScoreGradient)(probability, mean, gradient, count);
}
void TimesRow(const float* slope, float* gradient, size_t count) {
  HWY_DYNAMIC_DISPATCH(TimesSlope)(slope, gradient, count);
}

}  // namespace rivulet
#endif
