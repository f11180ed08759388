#include "federated/privacy/integer_noise.h"

#include <openssl/bn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <numbers>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/base/check.h"

namespace rivulet::privacy {
namespace {

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

// True with probability e^-(number / whole) for number < whole; `inverse` is floor((2^128 - 1) / whole). The quotient's
// first 64 bits lose at most a unit for the inverse and one for what is cut off.
inline bool DecideQuotient(NoiseStream& stream, const ExponentialTables& tables, uint64_t number, uint64_t whole,
                           Wide inverse) {
  if (number == 0) return true;
  const Wide scaled = static_cast<Wide>(number) * static_cast<uint64_t>(inverse >> 64) +
                      ((static_cast<Wide>(number) * static_cast<uint64_t>(inverse)) >> 64);
  return Decide(stream, BoundExponential(tables, scaled), [&](uint64_t first) {
    return IsBelowExponential(
        first, [&] { return stream.Word(); }, number, whole);
  });
}

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
  }
  // A number with so many leading zeros is below e^-certain, and not below e^-(certain + 2): one power is in question.
  uint64_t Row(NoiseStream& stream) const {
    const uint64_t first = stream.Word();
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

 private:
  std::array<ExponentialBounds, kRow> bounds_;
  std::array<uint8_t, 65> certain_;
};

const GeometricTable& GetGeometricTable() {
  static const GeometricTable kTable;
  return kTable;
}

uint64_t DrawGeometric(NoiseStream& stream, const GeometricTable& table) {
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
};

namespace {

const NoiseTables& GetNoiseTables() {
  static const NoiseTables kTables;
  return kTables;
}

// The magnitude of a discrete Laplace draw of a whole scale, before its sign.
inline uint64_t DrawMagnitude(NoiseStream& stream, const NoiseTables& tables, uint64_t scale, Wide inverse) {
  while (true) {
    const uint64_t rest = scale == 1 ? 0 : stream.Below(scale);
    if (DecideQuotient(stream, tables.exponential, rest, scale, inverse)) {
      return rest + scale * DrawGeometric(stream, tables.geometric);
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

bool DiscreteGaussian::IsKept(NoiseStream& stream, Wide difference) const {
  return Decide(stream, BoundExponential(tables_->exponential, ScaledSquare(difference)),
                [&](uint64_t first) { return IsKeptExactly(stream, first, difference); });
}

int64_t DiscreteGaussian::Draw(NoiseStream& stream) const {
  while (true) {
    const uint64_t magnitude = DrawMagnitude(stream, *tables_, laplace_, laplace_inverse_);
    const bool negative = stream.Bit();
    if (negative && magnitude == 0) continue;  // 0 has one sign
    const Wide at = static_cast<Wide>(magnitude) * unit_;
    if (!IsKept(stream, at > square_ ? at - square_ : square_ - at)) continue;
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
  return law;
}

int64_t DiscreteLaplace::Draw(NoiseStream& stream) const {
  while (true) {
    const uint64_t magnitude = DrawMagnitude(stream, *tables_, numerator_, inverse_) / denominator_;
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
