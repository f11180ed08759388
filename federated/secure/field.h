// Elements of GF(2^128) with the polynomial x^128 + x^7 + x^2 + x + 1. As bytes they are big-endian: the first bit is
// the coefficient of x^127. Sums are exclusive or; differences too.
//
// All functions take the same time for all values, unless documented otherwise. Products use the processor's carry-less
// multiplication if it has one.
#pragma once

#include <cstdint>
#include <span>

namespace rivulet::secure {

struct FieldElement {
  uint64_t high = 0, low = 0;

  bool operator==(const FieldElement&) const = default;  // not in constant time
  FieldElement operator+(const FieldElement& other) const { return {high ^ other.high, low ^ other.low}; }
  FieldElement& operator+=(const FieldElement& other) { return *this = *this + other; }
  bool IsZero() const { return (high | low) == 0; }
};

inline constexpr size_t kFieldBytes = 16;

FieldElement ElementOf(std::span<const uint8_t, kFieldBytes> bytes);
void WriteElement(const FieldElement& element, std::span<uint8_t, kFieldBytes> bytes);

FieldElement operator*(const FieldElement& a, const FieldElement& b);
// The inverse of an element that is not 0; 0 gives 0.
FieldElement Inverse(const FieldElement& element);
// Replaces each element, none of them 0, by its inverse: three products an element, and one inverse.
void InvertAll(std::span<FieldElement> elements);

// The product without the processor's carry-less multiplication, which other machines compute by. For tests.
FieldElement PortableProduct(const FieldElement& a, const FieldElement& b);

}  // namespace rivulet::secure
