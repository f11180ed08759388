// A possibly unknown size: a number, a symbol, or sums and products of these, such as 4·batch·sequence + 1. Symbols are
// numbers here; the table of SymbolicValues (symbolic_values.h) defines them. Even symbols are sizes of at least 1; odd
// symbols are arbitrary integers. A polynomial has at most 32 terms of degree 8. A larger or overflowing result has no
// value (nullopt).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rivulet {

class Dimension {
 public:
  Dimension(int64_t number = 0) : number_(number) {}  // NOLINT: a number is a dimension
  static Dimension OfSymbol(int symbol);

  bool IsNumber() const { return terms_.empty(); }
  int64_t number() const { return number_; }  // the constant term
  // The symbol if the dimension is a single symbol, else -1.
  int symbol() const;
  bool operator==(const Dimension&) const = default;

  std::optional<Dimension> Plus(const Dimension& other) const;
  std::optional<Dimension> Minus(const Dimension& other) const;
  std::optional<Dimension> Times(const Dimension& other) const;
  // The quotient rounded down, if it is exact: `divisor` divides the polynomial, or it is a number and the remainder is
  // a number. nullopt otherwise, and for a divisor of 0.
  std::optional<Dimension> Over(const Dimension& divisor) const;

  // The value if symbol i is values[i / 2]; nullopt: overflow. `values` must cover every symbol.
  std::optional<int64_t> At(std::span<const int64_t> values) const;
  // Adds every symbol that occurs to `symbols`, each once and in order.
  void AddSymbols(std::vector<int>& symbols) const;
  // Bounds, given that sizes have no upper bound; nullopt: unbounded on this side.
  std::optional<int64_t> Least() const;
  std::optional<int64_t> Most() const;

  // "4·batch·sequence + 1"; `name` returns a symbol's name.
  std::string ToString(const std::function<std::string(int)>& name) const;

 private:
  using Monomial = std::vector<int>;  // symbols in order; a repeated symbol is squared
  bool Add(const Monomial& monomial, int64_t coefficient);

  int64_t number_ = 0;
  std::vector<std::pair<Monomial, int64_t>> terms_;  // in order of monomials, without zero coefficients
};

}  // namespace rivulet
