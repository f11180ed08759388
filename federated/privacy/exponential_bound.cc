#include "federated/privacy/exponential_bound.h"

#include <openssl/bn.h>

#include <array>
#include <memory>

#include "engine/base/check.h"

namespace rivulet::privacy {
namespace {

struct FreeNumber {
  void operator()(BIGNUM* number) const { BN_clear_free(number); }
};
using Number = std::unique_ptr<BIGNUM, FreeNumber>;

Number NewNumber() {
  Number number(BN_new());
  RIVULET_CHECK(number != nullptr, "no memory for a number");
  return number;
}

Number NumberOf(Wide value) {
  Number number = NewNumber();
  RIVULET_CHECK(BN_set_word(number.get(), static_cast<uint64_t>(value >> 64)) == 1);
  RIVULET_CHECK(BN_lshift(number.get(), number.get(), 64) == 1);
  RIVULET_CHECK(BN_add_word(number.get(), static_cast<uint64_t>(value)) == 1);
  return number;
}

// 2^bits e^-(numerator / denominator) to within 2 units: the sum of the series for a number below 2^-8, squared as
// often as that took to halve. Each product and quotient loses less than a unit of the working precision, of which
// there are two for each eight bits, and each squaring doubles what is lost and loses one more; the working precision
// has a bit for each squaring, and 32 more.
Number ExponentialTo(int bits, const BIGNUM* numerator, const BIGNUM* denominator) {
  const std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context(BN_CTX_new(), BN_CTX_free);
  RIVULET_CHECK(context != nullptr, "no memory for numbers");
  const auto check = [](int done) { RIVULET_CHECK(done == 1, "OpenSSL's arithmetic failed"); };
  const int size = BN_num_bits(numerator) - BN_num_bits(denominator) + 1;  // numerator / denominator < 2^size
  const int halvings = (size > 0 ? size : 0) + 8;
  const int working = bits + halvings + 32;
  const Number reduced = NewNumber(), sum = NewNumber(), term = NewNumber();
  check(BN_lshift(reduced.get(), numerator, working));
  check(BN_div(reduced.get(), nullptr, reduced.get(), denominator, context.get()));
  check(BN_rshift(reduced.get(), reduced.get(), halvings));
  check(BN_one(term.get()));
  check(BN_lshift(term.get(), term.get(), working));
  check(BN_copy(sum.get(), term.get()) != nullptr);
  for (BN_ULONG n = 1; !BN_is_zero(term.get()); ++n) {
    check(BN_mul(term.get(), term.get(), reduced.get(), context.get()));
    check(BN_rshift(term.get(), term.get(), working));
    RIVULET_CHECK(BN_div_word(term.get(), n) != static_cast<BN_ULONG>(-1));
    check(n % 2 == 1 ? BN_sub(sum.get(), sum.get(), term.get()) : BN_add(sum.get(), sum.get(), term.get()));
  }
  for (int i = 0; i < halvings; ++i) {
    check(BN_sqr(sum.get(), sum.get(), context.get()));
    check(BN_rshift(sum.get(), sum.get(), working));
  }
  Number result = NewNumber();
  check(BN_rshift(result.get(), sum.get(), working - bits));
  return result;
}

constexpr uint64_t kOne = uint64_t{1} << 63;  // 1 in units of 2^-63

template <size_t kSize>
std::array<uint64_t, kSize> TableOf(unsigned parts) {
  std::array<uint64_t, kSize> table;
  for (unsigned k = 0; k < kSize; ++k) {
    const Number value = ExponentialTo(80, NumberOf(k).get(), NumberOf(parts).get());
    RIVULET_CHECK(BN_rshift(value.get(), value.get(), 17) == 1);
    const uint64_t word = BN_get_word(value.get());
    table[k] = word > kOne ? kOne : word;
  }
  return table;
}

}  // namespace

const ExponentialTables& GetExponentialTables() {
  static const ExponentialTables kTables{
      .whole = TableOf<64>(1), .high = TableOf<256>(1 << 8), .low = TableOf<256>(1 << 16)};
  return kTables;
}

ExponentialBounds BoundExponential(Wide scaled) { return BoundExponential(GetExponentialTables(), scaled); }

bool IsBelowExponential(uint64_t first, const std::function<uint64_t()>& next, const bignum_st* numerator,
                        const bignum_st* denominator) {
  if (BN_is_zero(numerator)) return true;  // e^0 is 1
  const Number uniform = NumberOf(first);
  for (int bits = 64;; bits += 64) {
    // The number lies in [uniform, uniform + 1) units of 2^-bits, and e^-g within 1 unit of what is computed with 16
    // bits more.
    const Number value = ExponentialTo(bits + 16, numerator, denominator);
    RIVULET_CHECK(BN_rshift(value.get(), value.get(), 16) == 1);
    const Number apart = NewNumber();
    RIVULET_CHECK(BN_sub(apart.get(), uniform.get(), value.get()) == 1);
    RIVULET_CHECK(BN_add_word(apart.get(), 2) == 1);  // negative: uniform + 2 < value, so all of it is below
    if (BN_is_negative(apart.get())) return true;
    RIVULET_CHECK(BN_sub_word(apart.get(), 4) == 1);  // uniform - 2 >= value: all of it is above
    if (!BN_is_negative(apart.get())) return false;
    RIVULET_CHECK(BN_lshift(uniform.get(), uniform.get(), 64) == 1);
    RIVULET_CHECK(BN_add_word(uniform.get(), next()) == 1);
  }
}

bool IsBelowExponential(uint64_t first, const std::function<uint64_t()>& next, Wide numerator, Wide denominator) {
  return IsBelowExponential(first, next, NumberOf(numerator).get(), NumberOf(denominator).get());
}

}  // namespace rivulet::privacy
