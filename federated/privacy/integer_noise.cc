#include "federated/privacy/integer_noise.h"

#include <openssl/bn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/check.h"

namespace rivulet::privacy {
namespace {

constexpr int kRootBits = 28;  // fraction bits of the root of an exponent

struct FreeBigNumber {
  void operator()(BIGNUM* number) const { BN_clear_free(number); }
};
using BigNumber = std::unique_ptr<BIGNUM, FreeBigNumber>;

BigNumber BigNumberOf(Wide value) {
  BigNumber number(BN_new());
  RIVULET_CHECK(number != nullptr, "no memory for a number");
  RIVULET_CHECK(BN_set_word(number.get(), static_cast<uint64_t>(value >> 64)) == 1);
  RIVULET_CHECK(BN_lshift(number.get(), number.get(), 64) == 1);
  RIVULET_CHECK(BN_add_word(number.get(), static_cast<uint64_t>(value)) == 1);
  return number;
}

BigNumber Product(const BigNumber& a, const BigNumber& b) {
  const std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context(BN_CTX_new(), BN_CTX_free);
  BigNumber product(BN_new());
  RIVULET_CHECK(context != nullptr && product != nullptr, "no memory for a number");
  RIVULET_CHECK(BN_mul(product.get(), a.get(), b.get(), context.get()) == 1);
  return product;
}

// 2 N D t^2: unit_ * t = t^2 D.
BigNumber DenominatorOf(Wide square, Wide unit, uint64_t laplace) {
  BigNumber product = Product(Product(BigNumberOf(square), BigNumberOf(unit)), BigNumberOf(laplace));
  RIVULET_CHECK(BN_lshift1(product.get(), product.get()) == 1);
  return product;
}

int WidthOf(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<uint64_t>(value));
}

// 2^64 (number / whole) for number < whole; `inverse` is floor((2^128 - 1) / whole). It loses at most a unit for the
// inverse and one for what is cut off.
inline Wide ScaledQuotient(uint64_t number, Wide inverse) {
  return static_cast<Wide>(number) * static_cast<uint64_t>(inverse >> 64) +
         ((static_cast<Wide>(number) * static_cast<uint64_t>(inverse)) >> 64);
}

// True with probability e^-(number / whole).
inline bool DecideQuotient(NoiseStream& stream, const ExponentialTables& tables, uint64_t number, uint64_t whole,
                           Wide inverse) {
  if (number == 0) return true;
  return Decide(stream, BoundExponential(tables, ScaledQuotient(number, inverse)), [&](uint64_t first) {
    return IsBelowExponential(
        first, [&] { return stream.Word(); }, number, whole);
  });
}

// Nearly all decisions follow from few bits: those of a range of exponents, and the first 32 of the uniform word. A
// word below `low` is below 2^64 e^-g for every exponent g of the range, and one above `high` is above it for every
// one. In between, the exact decision is made of the same word. So tables change no decision, and no word that is
// drawn.
struct Range {
  uint32_t low = 0, high = 0xFFFFFFFF;  // as it stands here: nothing is known
  bool IsBelow(uint64_t word) const { return static_cast<uint32_t>(word >> 32) < low; }
  bool MayBeBelow(uint64_t word) const { return static_cast<uint32_t>(word >> 32) <= high; }
};

// `least` and `most`: 2^64 times the range's exponents, each as BoundExponential takes it.
Range RangeOf(Wide least, Wide most) {
  const Wide high = BoundExponential(least).high >> 32;
  return {.low = static_cast<uint32_t>(BoundExponential(most).low >> 32),
          .high = static_cast<uint32_t>(std::min<Wide>(high, 0xFFFFFFFF))};
}

constexpr int kRangeBits = 10;  // of a uniform word, which choose a range

// How often e^-1 comes true in a row: how many k >= 1 have a uniform number below e^-k. After kRow of them the rest is
// drawn anew, which has the same law.
class GeometricTable {
 public:
  static constexpr uint64_t kRow = 32;
  GeometricTable() {
    for (uint64_t k = 0; k < kRow; ++k) bounds_[k] = BoundExponential(static_cast<Wide>(k + 1) << 64);
    for (uint64_t zeros = 0; zeros < certain_.size(); ++zeros) {
      certain_[zeros] = static_cast<uint8_t>(std::min(kRow, static_cast<uint64_t>(zeros * std::numbers::ln2)));
    }
    for (uint64_t i = 0; i < rows_.size(); ++i) {
      const uint64_t least = i << (64 - kRangeBits), most = least + (~uint64_t{0} >> kRangeBits);
      const auto counted = std::ranges::count_if(bounds_, [&](const auto& bounds) { return most < bounds.low; });
      const auto possible = std::ranges::count_if(bounds_, [&](const auto& bounds) { return least < bounds.high; });
      rows_[i] = counted == possible ? static_cast<uint8_t>(counted) : kUnknown;
    }
  }
  uint64_t Row(NoiseStream& stream) const {
    const uint64_t first = stream.Word();
    if (const uint8_t row = rows_[first >> (64 - kRangeBits)]; row != kUnknown) [[likely]]
      return row;
    return RowOf(stream, first);
  }

 private:
  static constexpr uint8_t kUnknown = 255;
  // A number with so many leading zeros is below e^-certain, and not below e^-(certain + 2): one power is in question.
  [[gnu::noinline]] uint64_t RowOf(NoiseStream& stream, uint64_t first) const {
    const uint64_t certain = certain_[static_cast<size_t>(std::countl_zero(first))];
    if (certain == kRow) return kRow;
    const ExponentialBounds& next = bounds_[certain];
    if (first >= next.low && first < next.high) [[unlikely]] {
      return certain + (IsBelowExponential(
                            first, [&] { return stream.Word(); }, certain + 1, Wide{1})
                            ? 1
                            : 0);
    }
    return certain + (first < next.low ? 1 : 0);
  }

  std::array<ExponentialBounds, kRow> bounds_;
  std::array<uint8_t, 65> certain_;
  std::array<uint8_t, 1 << kRangeBits> rows_;  // by a word's first bits
};

// Exponents up to 8 in ranges of 2^-8, and a 2^20th on both sides.
class SquareTable {
 public:
  static constexpr int kFractionBits = 8;
  SquareTable() {
    constexpr Wide kAround = Wide{1} << 44;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const Wide begin = static_cast<Wide>(i) << (64 - kFractionBits), end = begin + (Wide{1} << (64 - kFractionBits));
      ranges_[i] = RangeOf(begin > kAround ? begin - kAround : 0, end + kAround);
    }
  }
  // Of the exponents from index * 2^-8 on.
  Range Of(uint64_t index) const { return index < ranges_.size() ? ranges_[index] : Range(); }

 private:
  std::array<Range, 8 << kFractionBits> ranges_;
};

const GeometricTable& GetGeometricTable() {
  static const GeometricTable kTable;
  return kTable;
}

inline uint64_t DrawGeometric(NoiseStream& stream, const GeometricTable& table) {
  for (uint64_t rows = 0;; rows += GeometricTable::kRow) {
    const uint64_t count = table.Row(stream);
    if (count < GeometricTable::kRow) return rows + count;
    RIVULET_CHECK(rows < 100000, "a geometric draw beyond all bounds");  // of probability e^-100000
  }
}

}  // namespace

// What each draw reads, found once.
struct NoiseTables {
  const ExponentialTables& exponential = GetExponentialTables();
  const GeometricTable& geometric = GetGeometricTable();
  const SquareTable squares;
};

// The decisions e^-(rest / scale) of a scale, by the first bits of the word that the rest is drawn by.
struct QuotientTable {
  std::array<Range, 1 << kRangeBits> ranges;
};

namespace {

const NoiseTables& GetNoiseTables() {
  static const NoiseTables kTables;
  return kTables;
}

std::shared_ptr<const QuotientTable> QuotientsOf(uint64_t scale, Wide inverse) {
  auto table = std::make_shared<QuotientTable>();
  for (uint64_t i = 0; i < table->ranges.size(); ++i) {
    const uint64_t first = i << (64 - kRangeBits), last = first + (~uint64_t{0} >> kRangeBits);
    const auto least = static_cast<uint64_t>((static_cast<Wide>(first) * scale) >> 64);
    const auto most = static_cast<uint64_t>((static_cast<Wide>(last) * scale) >> 64);
    // A rest of 0 draws no second word.
    if (least > 0) table->ranges[i] = RangeOf(ScaledQuotient(least, inverse), ScaledQuotient(most, inverse));
  }
  return table;
}

// One try of a magnitude below `scale`; nullopt: it is thrown away.
[[gnu::noinline]] std::optional<uint64_t> TryRest(NoiseStream& stream, const NoiseTables& tables, uint64_t scale,
                                                  Wide inverse) {
  const uint64_t rest = scale == 1 ? 0 : stream.Below(scale);
  if (!DecideQuotient(stream, tables.exponential, rest, scale, inverse)) return std::nullopt;
  return rest;
}

// The magnitude of a discrete Laplace draw of a whole scale, before its sign. Of all tries 63 % are kept. Four are
// looked at together without a branch, and the first that is not known to be thrown away counts.
inline uint64_t DrawMagnitude(NoiseStream& stream, const NoiseTables& tables, const QuotientTable& quotients,
                              uint64_t scale, Wide inverse) {
  constexpr size_t kTries = 4;
  while (true) {
    if (const std::span<const uint64_t> words = stream.ahead(); words.size() >= 2 * kTries && scale > 1) [[likely]] {
      unsigned open = 0;
#pragma GCC unroll 4
      for (size_t i = 0; i < kTries; ++i) {
        const Range& range = quotients.ranges[words[2 * i] >> (64 - kRangeBits)];
        // Where Below would draw a rest anew, it may need other words.
        open |= (unsigned{range.MayBeBelow(words[2 * i + 1])} | unsigned{words[2 * i] * scale < scale}) << i;
      }
      if (open == 0) {
        stream.Skip(2 * kTries);
        continue;
      }
      const auto first = static_cast<size_t>(std::countr_zero(open));
      const uint64_t word = words[2 * first], decides = words[2 * first + 1];
      stream.Skip(2 * first);
      if (quotients.ranges[word >> (64 - kRangeBits)].IsBelow(decides) && word * scale >= scale) [[likely]] {
        stream.Skip(2);
        const auto rest = static_cast<uint64_t>((static_cast<Wide>(word) * scale) >> 64);
        return rest + scale * DrawGeometric(stream, tables.geometric);
      }
    }
    if (const std::optional<uint64_t> rest = TryRest(stream, tables, scale, inverse)) {
      return *rest + scale * DrawGeometric(stream, tables.geometric);
    }
  }
}

template <typename Law>
Status DrawBlocks(const NoiseKey& derived, const Law& law, uint64_t first_block, std::span<int64_t> out) {
  for (uint64_t block = first_block; !out.empty(); ++block) {
    RIVULET_ASSIGN_OR_RETURN(NoiseStream stream, NoiseStream::Create(derived, block));
    const size_t count = std::min<size_t>(out.size(), kElementsPerBlock);
    for (int64_t& element : out.first(count)) element = law.Draw(stream);
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

template <typename Law>
Status DrawInThreads(const NoiseKey& derived, const Law& law, uint64_t first_block, std::span<int64_t> out,
                     int threads) {
  const size_t blocks = (out.size() + kElementsPerBlock - 1) / kElementsPerBlock;
  const size_t workers = std::clamp<size_t>(static_cast<size_t>(std::max(threads, 1)), 1, std::max<size_t>(blocks, 1));
  std::vector<Status> statuses(workers);
  const auto work = [&](size_t worker) {
    const size_t begin = blocks * worker / workers, end = blocks * (worker + 1) / workers;
    const size_t first = begin * kElementsPerBlock, last = std::min(out.size(), end * kElementsPerBlock);
    statuses[worker] = DrawBlocks(derived, law, first_block + begin, out.subspan(first, last - first));
  };
  {
    std::vector<std::jthread> others;
    for (size_t worker = 1; worker < workers; ++worker) {
      try {
        others.emplace_back(work, worker);
      } catch (const std::system_error&) {  // the system has no more threads: the bits are the same without
        work(worker);
      }
    }
    work(0);
  }
  for (const Status& status : statuses) RIVULET_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

StatusOr<NoiseScale> NoiseScale::AtLeast(double parameter) {
  if (!(parameter >= kLeast && parameter <= kMost)) {
    return OutOfRange("noise of {} units cannot be drawn; it must be from {} to {} units", parameter, kLeast, kMost);
  }
  int exponent = 0;
  auto mantissa = static_cast<uint64_t>(std::ceil(std::ldexp(std::frexp(parameter, &exponent), 32)));
  exponent -= 32;
  while (mantissa % 2 == 0) mantissa /= 2, ++exponent;  // so that denominators stay small; 2^32 becomes 1 as well
  return NoiseScale{.mantissa = static_cast<uint32_t>(mantissa), .exponent = exponent};
}

double NoiseScale::value() const { return std::ldexp(static_cast<double>(mantissa), exponent); }

DiscreteGaussian::DiscreteGaussian(const NoiseScale& scale) : tables_(&GetNoiseTables()), scale_(scale) {
  const int up = std::max(scale.exponent, 0), down = std::max(-scale.exponent, 0);
  const auto mantissa = static_cast<Wide>(scale.mantissa);
  RIVULET_CHECK(scale.mantissa > 0 && up <= 40 && down <= 38, "a scale of {} * 2^{}", scale.mantissa, scale.exponent);
  laplace_ = static_cast<uint64_t>((mantissa << up) >> down) + 1;
  laplace_inverse_ = ~Wide{0} / laplace_;
  square_ = (mantissa * mantissa) << (2 * up);        // N
  unit_ = static_cast<Wide>(laplace_) << (2 * down);  // t D
  const BigNumber denominator = DenominatorOf(square_, unit_, laplace_);
  // A quotient of 64 bits, or of 65 where the denominator is a power of two: then one less.
  reciprocal_exponent_ = BN_num_bits(denominator.get()) + 63;
  const std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context(BN_CTX_new(), BN_CTX_free);
  const BigNumber quotient = BigNumberOf(1);
  RIVULET_CHECK(context != nullptr, "no memory for numbers");
  RIVULET_CHECK(BN_lshift(quotient.get(), quotient.get(), reciprocal_exponent_) == 1);
  RIVULET_CHECK(BN_div(quotient.get(), nullptr, quotient.get(), denominator.get(), context.get()) == 1);
  if (BN_num_bits(quotient.get()) > 64) {
    RIVULET_CHECK(BN_rshift1(quotient.get(), quotient.get()) == 1);
    --reciprocal_exponent_;
  }
  reciprocal_ = BN_get_word(quotient.get());
  quotients_ = QuotientsOf(laplace_, laplace_inverse_);
  // Computed in double, to a part in 2^50: SquareTable allows for more.
  const double s = scale.value(), root = s * std::numbers::sqrt2;
  if (s < 1) return;
  // Magnitudes stay below 2^22 s (DrawGeometric), and so 2^50 when they are shifted.
  root_shift_ = std::max(kRootBits - std::ilogb(s), 0);
  root_slope_ = static_cast<uint64_t>(std::ldexp(1 / root, kRootBits + 64 - root_shift_));
  root_offset_ = std::llround(std::ldexp(s * s / static_cast<double>(laplace_) / root, kRootBits));
}

Wide DiscreteGaussian::ScaledSquare(Wide difference) const {
  if (difference == 0) return 0;
  // The highest 64 bits of each factor: three of them, each cut off by less than a part in 2^62.
  const int width = WidthOf(difference), cut = width - 64;
  const auto top = static_cast<uint64_t>(cut >= 0 ? difference >> cut : difference << -cut);
  const auto squared = static_cast<uint64_t>((static_cast<Wide>(top) * top) >> 64);
  const auto product = static_cast<uint64_t>((static_cast<Wide>(squared) * reciprocal_) >> 64);
  const int shift = 2 * cut + 192 - reciprocal_exponent_;  // of 2^64 * the quotient
  if (shift >= 64) return static_cast<Wide>(64) << 64;     // e^-64 or less: the bounds are the same
  if (shift >= 0) return static_cast<Wide>(product) << shift;
  return shift > -64 ? product >> -shift : 0;
}

bool DiscreteGaussian::IsKeptExactly(NoiseStream& stream, uint64_t first, Wide difference) const {
  const BigNumber numerator = Product(BigNumberOf(difference), BigNumberOf(difference));
  const BigNumber denominator = DenominatorOf(square_, unit_, laplace_);
  return IsBelowExponential(
      first, [&] { return stream.Word(); }, numerator.get(), denominator.get());
}

bool DiscreteGaussian::IsKeptSlowly(NoiseStream& stream, uint64_t magnitude) const {
  const Wide at = static_cast<Wide>(magnitude) * unit_;
  const Wide difference = at > square_ ? at - square_ : square_ - at;
  return Decide(stream, BoundExponential(tables_->exponential, ScaledSquare(difference)),
                [&](uint64_t first) { return IsKeptExactly(stream, first, difference); });
}

// The root of the exponent is computed to two units of 2^-28. So an exponent below 8 is known to 2^-24, and its range
// with it. Whatever the first bits leave open is decided exactly, by the same word.
inline bool DiscreteGaussian::IsKept(NoiseStream& stream, uint64_t magnitude) const {
  const std::span<const uint64_t> words = stream.ahead();
  if (words.empty() || root_slope_ == 0) [[unlikely]]
    return IsKeptSlowly(stream, magnitude);
  const auto at = static_cast<int64_t>((static_cast<Wide>(magnitude << root_shift_) * root_slope_) >> 64);
  constexpr int64_t kMost = int64_t{1} << 31;  // a root of 8: its exponent is in no range
  const auto root = static_cast<uint64_t>(std::min(std::abs(at - root_offset_), kMost));
  const Range range = tables_->squares.Of((root * root) >> (2 * kRootBits - SquareTable::kFractionBits));
  if (range.MayBeBelow(words[0]) && !range.IsBelow(words[0])) [[unlikely]]
    return IsKeptSlowly(stream, magnitude);
  stream.Skip(1);
  return range.IsBelow(words[0]);
}

int64_t DiscreteGaussian::Draw(NoiseStream& stream) const {
  while (true) {
    const uint64_t magnitude = DrawMagnitude(stream, *tables_, *quotients_, laplace_, laplace_inverse_);
    const bool negative = stream.Bit();
    if (negative && magnitude == 0) continue;  // 0 has one sign
    if (!IsKept(stream, magnitude)) continue;
    return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  }
}

StatusOr<DiscreteLaplace> DiscreteLaplace::Create(uint64_t numerator, uint64_t denominator) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (numerator == 0 || denominator == 0 || numerator > kMost || denominator > kMost) {
    return OutOfRange("a discrete Laplace law of the scale {} / {} cannot be drawn; both must be from 1 to {}",
                      numerator, denominator, kMost);
  }
  DiscreteLaplace law;
  law.tables_ = &GetNoiseTables();
  law.numerator_ = numerator;
  law.denominator_ = denominator;
  law.inverse_ = ~Wide{0} / numerator;
  law.quotients_ = QuotientsOf(numerator, law.inverse_);
  return law;
}

int64_t DiscreteLaplace::Draw(NoiseStream& stream) const {
  while (true) {
    const uint64_t magnitude = DrawMagnitude(stream, *tables_, *quotients_, numerator_, inverse_) / denominator_;
    const bool negative = stream.Bit();
    if (negative && magnitude == 0) continue;
    return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  }
}

Status DrawNoise(const NoiseKey& derived, const DiscreteGaussian& law, uint64_t first_block, std::span<int64_t> out,
                 int threads) {
  return DrawInThreads(derived, law, first_block, out, threads);
}

Status DrawNoise(const NoiseKey& derived, const DiscreteLaplace& law, uint64_t first_block, std::span<int64_t> out,
                 int threads) {
  return DrawInThreads(derived, law, first_block, out, threads);
}

}  // namespace rivulet::privacy
