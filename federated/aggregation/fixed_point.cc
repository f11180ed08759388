#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "federated/aggregation/fixed_point.cc"
#include <hwy/foreach_target.h>  // compiles this file once per target
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/base/check.h"
#include "engine/base/doubles-inl.h"
#include "federated/aggregation/fixed_point.h"

#ifndef RIVULET_FIXED_POINT_LIMITS
#define RIVULET_FIXED_POINT_LIMITS
namespace rivulet {
namespace {

constexpr uint32_t kMagnitude = 0x7FFFFFFFu;

// Runs may start at any byte of a message, so loads are unaligned.
inline float FloatAt(const float* values, size_t i) {
  float value;
  std::memcpy(&value, reinterpret_cast<const char*>(values) + 4 * i, 4);
  return value;
}

// Thresholds as bits of a value's magnitude. Compared as integers, magnitudes order like the floats they are, and
// infinities and NaNs come last.
struct Limits {
  double scale = 0;
  int32_t bound = 0;  // larger values are refused
  int32_t plain = 0;  // up to this |value × scale| ≤ 2^50
  int32_t lost = 0;   // up to this value × scale is rounded to 0
};

}  // namespace
}  // namespace rivulet
#endif

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
using Floats = hn::FixedTag<float, 1>;
#else
using Floats = hn::Repartition<float, Doubles>;
#endif
using Words = hn::RebindToSigned<Floats>;
using Integers = hn::RebindToSigned<Doubles>;
using HalfFloats = hn::Rebind<float, Doubles>;
constexpr size_t kWide = hn::MaxLanes(Doubles()), kHalves = hn::MaxLanes(Floats()) / kWide;
constexpr size_t kUnit = 16;  // values per step
constexpr size_t kVectors = kUnit / (kWide * kHalves), kChains = 8 / kWide;
// Prefetch distance in values. The checks of each value fill the processor's window, so it holds fewer loads than plain
// addition would; without prefetching, this pass would wait for memory.
constexpr size_t kAhead = 256;

// Adding 1.5 × 2^52 leaves the nearest integer (ties to even) in the low bits of a double, if it is below 2^51.
constexpr double kMagic = 0x1.8p52;

template <size_t kHalf>
HWY_INLINE hn::Vec<Doubles> Promoted(hn::Vec<Floats> v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::PromoteTo(Doubles(), v);
#else
  if constexpr (kHalf == 0) return hn::PromoteTo(Doubles(), hn::LowerHalf(HalfFloats(), v));
  return hn::PromoteTo(Doubles(), hn::UpperHalf(HalfFloats(), v));
#endif
}

template <class T>
HWY_INLINE void AskFor(const T* values) {
  for (size_t i = 0; i < kUnit; i += 64 / sizeof(T)) hwy::Prefetch(values + i);
}

template <bool kUntake>
HWY_INLINE void AddTo(int64_t* HWY_RESTRICT sums, hn::Vec<Integers> addend) {
  const Integers d;
  const auto sum = hn::LoadU(d, sums);
  hn::StoreU(kUntake ? hn::Sub(sum, addend) : hn::Add(sum, addend), d, sums);
}

template <bool kUntake>
HWY_INLINE void AddTo(int32_t* HWY_RESTRICT sums, hn::Vec<Integers> addend) {
  const hn::Rebind<uint32_t, Doubles> d;
  uint32_t* const words = reinterpret_cast<uint32_t*>(sums);
  const auto low = hn::TruncateTo(d, hn::BitCast(hn::RebindToUnsigned<Integers>(), addend));
  const auto sum = hn::LoadU(d, words);
  hn::StoreU(kUntake ? hn::Sub(sum, low) : hn::Add(sum, low), d, words);
}

// One run in one pass. The loop is bound by memory, so all tests of a value are made while it is in registers: whether
// it is good, its square, whether it rounds to 0. A step is 16 values for any vector width and starts at a multiple of
// 8 of the wire index: so each lane of `squares` sees the same values in the same order on every machine.
template <bool kMinus, bool kScaled, bool kUntake, class Sum>
HWY_INLINE size_t Pass(const float* HWY_RESTRICT values, const float* HWY_RESTRICT minus, float factor, size_t n,
                       const Limits& limits, Sum* HWY_RESTRICT sums, FoldState& state) {
  using Bits = std::make_unsigned_t<Sum>;
  const auto first = static_cast<size_t>(state.wire_index);

  // Rounds to the nearest integer, ties to even, as the vector code below does: both paths give the same bits.
  const auto one = [&](size_t i) {
    float value = FloatAt(values, i);
    if constexpr (kMinus) value -= FloatAt(minus, i);
    if constexpr (kScaled) value *= factor;
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kMagnitude);
    if (bits > limits.bound) return false;
    const auto wide = static_cast<double>(value);
    const auto addend = static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(wide * limits.scale)));
    const auto sum = static_cast<Bits>(sums[i]);
    sums[i] = static_cast<Sum>(static_cast<Bits>(kUntake ? sum - addend : sum + addend));
    if constexpr (!kUntake) {
      state.squares[(first + i) % 8] += wide * wide;
      // Tests bits, not values: threads that flush denormals to zero would otherwise count differently.
      state.nonzeros += bits != 0;
      state.lost += bits != 0 && bits <= limits.lost;
    }
    return true;
  };

  size_t i = 0;
  for (; i < n && (first + i) % 8 != 0; ++i) {
    if (!one(i)) return i;
  }

  const Doubles doubles;
  const Floats floats;
  const Words words;
  const Integers integers;
  const auto scales = hn::Set(doubles, limits.scale);
  const auto magic = hn::Set(doubles, kMagic);
  const auto magic_bits = hn::BitCast(integers, magic);
  const auto magnitude = hn::Set(words, static_cast<int32_t>(kMagnitude));
  const auto plain = hn::Set(words, std::min(limits.plain, limits.bound));
  const auto lost = hn::Set(words, limits.lost);
  [[maybe_unused]] const auto factors = hn::Set(floats, factor);
  hn::Vec<Doubles> squares[kChains];
#pragma GCC unroll 8
  for (size_t c = 0; c < kChains; ++c) squares[c] = hn::LoadU(doubles, state.squares.data() + c * kWide);
  size_t nonzeros = 0, kept = 0;

  for (; i + kUnit <= n; i += kUnit) {
    hn::Vec<Floats> value[kVectors];
    hn::Vec<Words> magnitudes[kVectors];
    auto largest = hn::Zero(words);
    const size_t ahead = std::min(i + kAhead, n - kUnit);
    AskFor(values + ahead);
    if constexpr (kMinus) AskFor(minus + ahead);
    AskFor(sums + ahead);
#pragma GCC unroll 16
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i + k * kWide * kHalves;
      value[k] = hn::LoadU(floats, values + at);
      if constexpr (kMinus) value[k] = hn::Sub(value[k], hn::LoadU(floats, minus + at));
      if constexpr (kScaled) value[k] = hn::Mul(value[k], factors);
      const auto bits = hn::And(hn::BitCast(words, value[k]), magnitude);
      largest = hn::Max(largest, bits);
      magnitudes[k] = bits;
    }
    const auto step = [&](auto addend_of) HWY_ATTR {
#pragma GCC unroll 16
      for (size_t k = 0; k < kVectors; ++k) {
        const auto half = [&](hn::Vec<Doubles> wide, size_t h) HWY_ATTR {
          const size_t vector = k * kHalves + h;
          if constexpr (!kUntake) {
            // The square of a float is exact in double, so fused and separate operations give the same result.
            squares[vector % kChains] = hn::MulAdd(wide, wide, squares[vector % kChains]);
          }
          AddTo<kUntake>(sums + i + vector * kWide, addend_of(wide));
        };
        half(Promoted<0>(value[k]), 0);
        if constexpr (kHalves == 2) half(Promoted<1>(value[k]), 1);
        if constexpr (!kUntake) {
          nonzeros += hn::CountTrue(words, hn::Gt(magnitudes[k], hn::Zero(words)));
          kept += hn::CountTrue(words, hn::Gt(magnitudes[k], lost));
        }
      }
    };
    if (HWY_LIKELY(hn::AllFalse(words, hn::Gt(largest, plain)))) {
      // weight × value is exact too.
      step([&](hn::Vec<Doubles> wide)
               HWY_ATTR { return hn::Sub(hn::BitCast(integers, hn::MulAdd(wide, scales, magic)), magic_bits); });
      continue;
    }
    if (!hn::AllFalse(words, hn::Gt(largest, hn::Set(words, limits.bound)))) break;
    // Weights and values near their bounds.
    step([&](hn::Vec<Doubles> wide) HWY_ATTR { return hn::ConvertTo(integers, hn::Round(hn::Mul(wide, scales))); });
  }

#pragma GCC unroll 8
  for (size_t c = 0; c < kChains; ++c) hn::StoreU(squares[c], doubles, state.squares.data() + c * kWide);
  state.nonzeros += static_cast<int64_t>(nonzeros);
  state.lost += static_cast<int64_t>(nonzeros - kept);
  for (; i < n; ++i) {
    if (!one(i)) return i;
  }
  return n;
}

template <bool kUntake, class Sum>
HWY_INLINE size_t PassOf(const FloatRun& run, size_t n, const Limits& limits, Sum* sums, FoldState& state) {
  const auto pass = [&](auto scaled) HWY_ATTR {
    constexpr bool kScaled = decltype(scaled)::value;
    return run.minus == nullptr
               ? Pass<false, kScaled, kUntake>(run.values, run.minus, run.factor, n, limits, sums, state)
               : Pass<true, kScaled, kUntake>(run.values, run.minus, run.factor, n, limits, sums, state);
  };
  return run.factor == 1 ? pass(std::false_type()) : pass(std::true_type());
}

// The squares of Pass, in the same lanes and order, without sums.
template <bool kMinus, bool kCopy>
HWY_INLINE void Squares(const float* HWY_RESTRICT values, const float* HWY_RESTRICT minus, size_t n,
                        float* HWY_RESTRICT copy, FoldState& state) {
  const auto first = static_cast<size_t>(state.wire_index);
  const auto one = [&](size_t i) {
    float value = FloatAt(values, i);
    if constexpr (kMinus) value -= FloatAt(minus, i);
    if constexpr (kCopy) copy[i] = value;
    const auto wide = static_cast<double>(value);
    state.squares[(first + i) % 8] += wide * wide;
  };
  size_t i = 0;
  for (; i < n && (first + i) % 8 != 0; ++i) one(i);
  const Doubles doubles;
  const Floats floats;
  hn::Vec<Doubles> squares[kChains];
#pragma GCC unroll 8
  for (size_t c = 0; c < kChains; ++c) squares[c] = hn::LoadU(doubles, state.squares.data() + c * kWide);
  for (; i + kUnit <= n; i += kUnit) {
    const size_t ahead = std::min(i + kAhead, n - kUnit);
    AskFor(values + ahead);
    if constexpr (kMinus) AskFor(minus + ahead);
#pragma GCC unroll 16
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i + k * kWide * kHalves;
      auto value = hn::LoadU(floats, values + at);
      if constexpr (kMinus) value = hn::Sub(value, hn::LoadU(floats, minus + at));
      if constexpr (kCopy) hn::StoreU(value, floats, copy + at);
      const auto half = [&](hn::Vec<Doubles> wide, size_t h) HWY_ATTR {
        const size_t chain = (k * kHalves + h) % kChains;
        squares[chain] = hn::MulAdd(wide, wide, squares[chain]);
      };
      half(Promoted<0>(value), 0);
      if constexpr (kHalves == 2) half(Promoted<1>(value), 1);
    }
  }
#pragma GCC unroll 8
  for (size_t c = 0; c < kChains; ++c) hn::StoreU(squares[c], doubles, state.squares.data() + c * kWide);
  for (; i < n; ++i) one(i);
}

void SquaresOf(const FloatRun& run, size_t n, float* copy, FoldState& state) {
  if (run.minus == nullptr) {
    copy == nullptr ? Squares<false, false>(run.values, run.minus, n, copy, state)
                    : Squares<false, true>(run.values, run.minus, n, copy, state);
  } else {
    copy == nullptr ? Squares<true, false>(run.values, run.minus, n, copy, state)
                    : Squares<true, true>(run.values, run.minus, n, copy, state);
  }
}

size_t Take64(const FloatRun& run, size_t n, const Limits& limits, int64_t* sums, FoldState& state) {
  return PassOf<false>(run, n, limits, sums, state);
}
size_t Take32(const FloatRun& run, size_t n, const Limits& limits, int32_t* sums, FoldState& state) {
  return PassOf<false>(run, n, limits, sums, state);
}
size_t Untake64(const FloatRun& run, size_t n, const Limits& limits, int64_t* sums, FoldState& state) {
  return PassOf<true>(run, n, limits, sums, state);
}
size_t Untake32(const FloatRun& run, size_t n, const Limits& limits, int32_t* sums, FoldState& state) {
  return PassOf<true>(run, n, limits, sums, state);
}

size_t Bad(const FloatRun& run, size_t n, int32_t bound_bits) {
  const Floats floats;
  const Words words;
  constexpr size_t kLanes = kWide * kHalves;
  const auto magnitude = hn::Set(words, static_cast<int32_t>(kMagnitude));
  const auto bound = hn::Set(words, bound_bits);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    auto value = hn::LoadU(floats, run.values + i);
    if (run.minus != nullptr) value = hn::Sub(value, hn::LoadU(floats, run.minus + i));
    if (run.factor != 1) value = hn::Mul(value, hn::Set(floats, run.factor));
    const auto bits = hn::And(hn::BitCast(words, value), magnitude);
    if (HWY_UNLIKELY(!hn::AllFalse(words, hn::Gt(bits, bound)))) break;
  }
  for (; i < n; ++i) {
    float value = FloatAt(run.values, i);
    if (run.minus != nullptr) value -= FloatAt(run.minus, i);
    if (run.factor != 1) value *= run.factor;
    if (static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kMagnitude) > bound_bits) break;
  }
  return i;
}

// The only conversion of integers back to floating point. Per element: one rounding to double, one division, one
// rounding to float, whatever the order of updates was.
template <class Sum, class Wide>
HWY_INLINE void Divide(const Sum* HWY_RESTRICT sums, size_t n, double denominator, float* HWY_RESTRICT means,
                       const Wide& wide) {
  const HalfFloats floats;
  const auto by = hn::Set(Doubles(), denominator);
  size_t i = 0;
  for (; i + kWide <= n; i += kWide) hn::StoreU(hn::DemoteTo(floats, hn::Div(wide(sums + i), by)), floats, means + i);
  for (; i < n; ++i) means[i] = static_cast<float>(static_cast<double>(sums[i]) / denominator);
}
void Divide64(const int64_t* HWY_RESTRICT sums, size_t n, double denominator, float* HWY_RESTRICT means) {
  Divide(sums, n, denominator, means,
         [](const int64_t* at) HWY_ATTR { return hn::ConvertTo(Doubles(), hn::LoadU(Integers(), at)); });
}
void Divide32(const int32_t* HWY_RESTRICT sums, size_t n, double denominator, float* HWY_RESTRICT means) {
  Divide(sums, n, denominator, means, [](const int32_t* at) HWY_ATTR {
    return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<int32_t, Doubles>(), at));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {
HWY_EXPORT(Take64);
HWY_EXPORT(Take32);
HWY_EXPORT(Untake64);
HWY_EXPORT(Untake32);
HWY_EXPORT(SquaresOf);
HWY_EXPORT(Bad);
HWY_EXPORT(Divide64);
HWY_EXPORT(Divide32);

int32_t BitsOf(float value) { return std::bit_cast<int32_t>(value); }

// The largest float v with v × scale ≤ limit; the products are exact.
int32_t LargestBits(double limit, double scale) {
  const double quotient = limit / scale;
  if (quotient >= static_cast<double>(std::numeric_limits<float>::max())) {
    return BitsOf(std::numeric_limits<float>::max());
  }
  // The answer is one of the two floats next to the quotient.
  int32_t bits = BitsOf(static_cast<float>(quotient));
  while (static_cast<double>(std::bit_cast<float>(bits)) * scale > limit) --bits;
  while (static_cast<double>(std::bit_cast<float>(bits + 1)) * scale <= limit) ++bits;
  return bits;
}

Limits LimitsOf(double scale, int32_t bound) {
  return {scale, bound, LargestBits(0x1p50, scale), LargestBits(0.5, scale)};
}

int32_t BoundBits(int value_bits) { return BitsOf(std::ldexp(1.0f, value_bits)); }

template <class Sum>
size_t CountOf(const FloatRun& run, std::span<Sum> sums) {
  RIVULET_CHECK(static_cast<size_t>(run.count) == sums.size());
  return sums.size();
}

// Each sum that a sparse update touches is on a separate cache line, so the cost is waiting for memory, and vectors
// would wait as long. Each value is processed as by `one` in Pass.
template <bool kUntake, class Sum>
int64_t SparsePass(const SparseRun& run, int64_t n, const Limits& limits, std::span<Sum> sums, FoldState& state) {
  using Bits = std::make_unsigned_t<Sum>;
  for (int64_t i = 0; i < n; ++i) {
    const float value = run.value(i);
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kMagnitude);
    if (bits > limits.bound) return i;
    const auto at = static_cast<size_t>(run.index(i));
    const auto wide = static_cast<double>(value);
    const auto addend = static_cast<uint64_t>(static_cast<int64_t>(std::nearbyint(wide * limits.scale)));
    const auto sum = static_cast<Bits>(sums[at]);
    sums[at] = static_cast<Sum>(static_cast<Bits>(kUntake ? sum - addend : sum + addend));
    if constexpr (!kUntake) {
      state.squares[at % 8] += wide * wide;
      state.nonzeros += bits != 0;
      state.lost += bits != 0 && bits <= limits.lost;
    }
  }
  return n;
}

}  // namespace

double FoldState::Norm() const {
  const std::array<double, 8>& s = squares;
  return std::sqrt(((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
}

int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state) {
  const auto taken = static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(Take64)(
      run, CountOf(run, sums), LimitsOf(scale, BoundBits(value_bits)), sums.data(), state));
  state.wire_index += taken;
  return taken;
}

int64_t AddToSums(const FloatRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state) {
  const auto taken = static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(Take32)(
      run, CountOf(run, sums), LimitsOf(scale, BoundBits(value_bits)), sums.data(), state));
  state.wire_index += taken;
  return taken;
}

void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int64_t> sums) {
  FoldState state;
  HWY_DYNAMIC_DISPATCH(Untake64)
  (run, static_cast<size_t>(count), LimitsOf(scale, static_cast<int32_t>(kMagnitude)), sums.data(), state);
}

void SubtractFromSums(const FloatRun& run, int64_t count, double scale, std::span<int32_t> sums) {
  FoldState state;
  HWY_DYNAMIC_DISPATCH(Untake32)
  (run, static_cast<size_t>(count), LimitsOf(scale, static_cast<int32_t>(kMagnitude)), sums.data(), state);
}

int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int64_t> sums, FoldState& state) {
  return SparsePass<false>(run, run.count, LimitsOf(scale, BoundBits(value_bits)), sums, state);
}

int64_t AddSparseToSums(const SparseRun& run, double scale, int value_bits, std::span<int32_t> sums, FoldState& state) {
  return SparsePass<false>(run, run.count, LimitsOf(scale, BoundBits(value_bits)), sums, state);
}

void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int64_t> sums) {
  FoldState state;
  SparsePass<true>(run, count, LimitsOf(scale, static_cast<int32_t>(kMagnitude)), sums, state);
}

void SubtractSparseFromSums(const SparseRun& run, int64_t count, double scale, std::span<int32_t> sums) {
  FoldState state;
  SparsePass<true>(run, count, LimitsOf(scale, static_cast<int32_t>(kMagnitude)), sums, state);
}

void AddSquares(const FloatRun& run, FoldState& state, float* copy) {
  HWY_DYNAMIC_DISPATCH(SquaresOf)(run, static_cast<size_t>(run.count), copy, state);
  state.wire_index += run.count;
}

int64_t FirstBad(const SparseRun& run, int value_bits) {
  const int32_t bound = BoundBits(value_bits);
  int64_t i = 0;
  while (i < run.count && static_cast<int32_t>(std::bit_cast<uint32_t>(run.value(i)) & kMagnitude) <= bound) ++i;
  return i;
}

int64_t FirstBad(const FloatRun& run, int value_bits) {
  return static_cast<int64_t>(HWY_DYNAMIC_DISPATCH(Bad)(run, static_cast<size_t>(run.count), BoundBits(value_bits)));
}

float ValueOf(const FloatRun& run, int64_t index) {
  float value = FloatAt(run.values, static_cast<size_t>(index));
  if (run.minus != nullptr) value -= FloatAt(run.minus, static_cast<size_t>(index));
  return run.factor == 1 ? value : value * run.factor;
}

void DivideSums(std::span<const int64_t> sums, double denominator, std::span<float> means) {
  RIVULET_CHECK(sums.size() == means.size());
  HWY_DYNAMIC_DISPATCH(Divide64)(sums.data(), sums.size(), denominator, means.data());
}

void DivideSums(std::span<const int32_t> sums, double denominator, std::span<float> means) {
  RIVULET_CHECK(sums.size() == means.size());
  HWY_DYNAMIC_DISPATCH(Divide32)(sums.data(), sums.size(), denominator, means.data());
}

}  // namespace rivulet
#endif  // HWY_ONCE
