#include "engine/graph/dimension.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace rivulet {
namespace {

constexpr size_t kMaxTerms = 32;
constexpr size_t kMaxDegree = 8;

// Lexicographic by exponents, the largest first: an order that multiplication by a monomial preserves, which long
// division needs. In sorted lists the smaller symbol is the larger exponent, and a list precedes its own prefixes.
bool Precedes(const std::vector<int>& a, const std::vector<int>& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  if (in_a == a.end()) return false;
  return in_b == b.end() || *in_a < *in_b;
}

bool IsOfSizes(const std::vector<int>& monomial) {
  return std::ranges::all_of(monomial, [](int symbol) { return symbol % 2 == 0; });
}

}  // namespace

Dimension Dimension::OfSymbol(int symbol) {
  Dimension dimension;
  dimension.terms_.push_back({{symbol}, 1});
  return dimension;
}

int Dimension::symbol() const {
  const bool one = number_ == 0 && terms_.size() == 1 && terms_[0].first.size() == 1 && terms_[0].second == 1;
  return one ? terms_[0].first[0] : -1;
}

bool Dimension::Add(const Monomial& monomial, int64_t coefficient) {
  if (monomial.empty()) return !__builtin_add_overflow(number_, coefficient, &number_);
  const auto at = std::ranges::lower_bound(terms_, monomial, Precedes, [](const auto& term) { return term.first; });
  if (at != terms_.end() && at->first == monomial) {
    if (__builtin_add_overflow(at->second, coefficient, &at->second)) return false;
    if (at->second == 0) terms_.erase(at);
    return true;
  }
  if (coefficient != 0) terms_.insert(at, {monomial, coefficient});
  return terms_.size() <= kMaxTerms && monomial.size() <= kMaxDegree;
}

std::optional<Dimension> Dimension::Plus(const Dimension& other) const {
  Dimension sum = *this;
  bool fits = sum.Add({}, other.number_);
  for (const auto& [monomial, coefficient] : other.terms_) fits = fits && sum.Add(monomial, coefficient);
  return fits ? std::optional(std::move(sum)) : std::nullopt;
}

std::optional<Dimension> Dimension::Minus(const Dimension& other) const {
  const std::optional<Dimension> negative = other.Times(-1);
  return negative ? Plus(*negative) : std::nullopt;
}

std::optional<Dimension> Dimension::Times(const Dimension& other) const {
  Dimension product;
  const auto add = [&](const Monomial& a, int64_t x, const Monomial& b, int64_t y) {
    int64_t coefficient = 0;
    if (__builtin_mul_overflow(x, y, &coefficient)) return false;
    Monomial both;
    std::ranges::merge(a, b, std::back_inserter(both));
    return product.Add(both, coefficient);
  };
  bool fits = add({}, number_, {}, other.number_);
  for (const auto& [a, x] : terms_) {
    fits = fits && (other.number_ == 0 || add(a, x, {}, other.number_));
    for (const auto& [b, y] : other.terms_) fits = fits && add(a, x, b, y);
  }
  for (const auto& [b, y] : other.terms_) fits = fits && (number_ == 0 || add({}, number_, b, y));
  return fits ? std::optional(std::move(product)) : std::nullopt;
}

std::optional<Dimension> Dimension::Over(const Dimension& divisor) const {
  if (divisor == Dimension(0)) return std::nullopt;
  const bool by_number = divisor.IsNumber();
  const Monomial none;
  const Monomial& leading = by_number ? none : divisor.terms_[0].first;
  const int64_t factor = by_number ? divisor.number_ : divisor.terms_[0].second;
  Dimension quotient, rest = *this;
  while (!rest.IsNumber() || (!by_number && rest.number_ != 0)) {
    if (rest.IsNumber()) return std::nullopt;
    const auto& [monomial, coefficient] = rest.terms_[0];
    if ((factor == -1 && coefficient == std::numeric_limits<int64_t>::min()) || coefficient % factor != 0 ||
        !std::ranges::includes(monomial, leading))
      return std::nullopt;
    Dimension part;
    Monomial left;
    std::ranges::set_difference(monomial, leading, std::back_inserter(left));
    if (!part.Add(left, coefficient / factor) || !quotient.Add(left, coefficient / factor)) return std::nullopt;
    const std::optional<Dimension> taken = part.Times(divisor);
    const std::optional<Dimension> remainder = taken ? rest.Minus(*taken) : std::nullopt;
    if (!remainder) return std::nullopt;
    rest = *remainder;
  }
  if (!by_number) return quotient;
  if (factor == -1 && rest.number_ == std::numeric_limits<int64_t>::min()) return std::nullopt;
  const int64_t whole = rest.number_ / factor;
  const bool down = rest.number_ % factor != 0 && (rest.number_ < 0) != (factor < 0);
  return quotient.Add({}, whole - (down ? 1 : 0)) ? std::optional(std::move(quotient)) : std::nullopt;
}

std::optional<int64_t> Dimension::At(std::span<const int64_t> values) const {
  int64_t sum = number_;
  for (const auto& [monomial, coefficient] : terms_) {
    int64_t product = coefficient;
    for (const int symbol : monomial)
      if (__builtin_mul_overflow(product, values[static_cast<size_t>(symbol) / 2], &product)) return std::nullopt;
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

void Dimension::AddSymbols(std::vector<int>& symbols) const {
  for (const auto& term : terms_)
    for (const int symbol : term.first) {
      const auto at = std::ranges::lower_bound(symbols, symbol);
      if (at == symbols.end() || *at != symbol) symbols.insert(at, symbol);
    }
}

std::optional<int64_t> Dimension::Least() const {
  int64_t sum = number_;
  for (const auto& term : terms_)
    if (!IsOfSizes(term.first) || term.second < 0 || __builtin_add_overflow(sum, term.second, &sum))
      return std::nullopt;
  return sum;
}

std::optional<int64_t> Dimension::Most() const {
  int64_t sum = number_;
  for (const auto& term : terms_)
    if (!IsOfSizes(term.first) || term.second > 0 || __builtin_add_overflow(sum, term.second, &sum))
      return std::nullopt;
  return sum;
}

std::string Dimension::ToString(const std::function<std::string(int)>& name) const {
  std::string text;
  for (const auto& [monomial, coefficient] : terms_) {
    if (!text.empty()) text += " + ";
    if (coefficient != 1) text += fmt::format("{}·", coefficient);
    for (size_t i = 0; i < monomial.size(); ++i) text += (i > 0 ? "·" : "") + name(monomial[i]);
  }
  if (text.empty()) return fmt::format("{}", number_);
  return number_ == 0 ? text : fmt::format("{} + {}", text, number_);
}

}  // namespace rivulet
