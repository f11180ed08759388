#include "federated/secure/field.h"

#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#include <wmmintrin.h>
#endif

namespace rivulet::secure {
namespace {

using Wide = unsigned __int128;

FieldElement ElementOfWide(Wide value) { return {static_cast<uint64_t>(value >> 64), static_cast<uint64_t>(value)}; }

// `high` x^128 + `low`, reduced: x^128 is x^7 + x^2 + x + 1. What the first step shifts out at the top (7 bits at most)
// is reduced by the second.
FieldElement Reduced(Wide high, Wide low) {
  const Wide over = high >> 127 ^ high >> 126 ^ high >> 121;
  low ^= high ^ high << 1 ^ high << 2 ^ high << 7;
  low ^= over ^ over << 1 ^ over << 2 ^ over << 7;
  return ElementOfWide(low);
}

// The lower 64 bits of a carry-less product, by integer products of numbers with three zero bits between each two bits:
// up to 16 ones add up in 4 bits, and what a sum carries over is masked (T. Pornin's constant-time method of BearSSL).
uint64_t LowProduct(uint64_t a, uint64_t b) {
  constexpr uint64_t kEvery4 = 0x1111111111111111;
  const uint64_t a0 = a & kEvery4, a1 = a & kEvery4 << 1, a2 = a & kEvery4 << 2, a3 = a & kEvery4 << 3;
  const uint64_t b0 = b & kEvery4, b1 = b & kEvery4 << 1, b2 = b & kEvery4 << 2, b3 = b & kEvery4 << 3;
  const uint64_t p0 = (a0 * b0) ^ (a1 * b3) ^ (a2 * b2) ^ (a3 * b1);
  const uint64_t p1 = (a0 * b1) ^ (a1 * b0) ^ (a2 * b3) ^ (a3 * b2);
  const uint64_t p2 = (a0 * b2) ^ (a1 * b1) ^ (a2 * b0) ^ (a3 * b3);
  const uint64_t p3 = (a0 * b3) ^ (a1 * b2) ^ (a2 * b1) ^ (a3 * b0);
  return (p0 & kEvery4) | (p1 & kEvery4 << 1) | (p2 & kEvery4 << 2) | (p3 & kEvery4 << 3);
}

uint64_t Reversed(uint64_t bits) {
  const auto swap = [&](uint64_t mask, int by) { bits = (bits & mask) << by | (bits >> by & mask); };
  swap(0x5555555555555555, 1);
  swap(0x3333333333333333, 2);
  swap(0x0F0F0F0F0F0F0F0F, 4);
  return __builtin_bswap64(bits);
}

// The upper half of a product is the lower half of the reversed numbers' product, reversed.
Wide WideProduct(uint64_t a, uint64_t b) {
  const uint64_t high = Reversed(LowProduct(Reversed(a), Reversed(b))) >> 1;
  return static_cast<Wide>(high) << 64 | LowProduct(a, b);
}

#if defined(__x86_64__)
__attribute__((target("pclmul,sse2"))) FieldElement ProductByProcessor(const FieldElement& a, const FieldElement& b) {
  const __m128i x = _mm_set_epi64x(static_cast<long long>(a.high), static_cast<long long>(a.low));
  const __m128i y = _mm_set_epi64x(static_cast<long long>(b.high), static_cast<long long>(b.low));
  const __m128i low = _mm_clmulepi64_si128(x, y, 0x00), high = _mm_clmulepi64_si128(x, y, 0x11);
  const __m128i middle = _mm_xor_si128(_mm_clmulepi64_si128(x, y, 0x01), _mm_clmulepi64_si128(x, y, 0x10));
  const auto wide = [](__m128i v) {
    return static_cast<Wide>(static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(v, v)))) << 64 |
           static_cast<uint64_t>(_mm_cvtsi128_si64(v));
  };
  const Wide across = wide(middle);
  return Reduced(wide(high) ^ across >> 64, wide(low) ^ across << 64);
}
const bool kHasCarryless = __builtin_cpu_supports("pclmul") != 0;
#endif

}  // namespace

FieldElement ElementOf(std::span<const uint8_t, kFieldBytes> bytes) {
  FieldElement element;
  for (size_t i = 0; i < 8; ++i) element.high = element.high << 8 | bytes[i];
  for (size_t i = 8; i < 16; ++i) element.low = element.low << 8 | bytes[i];
  return element;
}

void WriteElement(const FieldElement& element, std::span<uint8_t, kFieldBytes> bytes) {
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(element.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<uint8_t>(element.low >> (56 - 8 * i));
  }
}

FieldElement PortableProduct(const FieldElement& a, const FieldElement& b) {
  const Wide low = WideProduct(a.low, b.low), high = WideProduct(a.high, b.high);
  const Wide across = WideProduct(a.high ^ a.low, b.high ^ b.low) ^ low ^ high;  // Karatsuba
  return Reduced(high ^ across >> 64, low ^ across << 64);
}

FieldElement operator*(const FieldElement& a, const FieldElement& b) {
#if defined(__x86_64__)
  if (kHasCarryless) [[likely]]
    return ProductByProcessor(a, b);
#endif
  return PortableProduct(a, b);
}

// The power 2^128 - 2, whose bits are 127 ones and a zero.
FieldElement Inverse(const FieldElement& element) {
  FieldElement power{0, 1}, square = element;
  for (int bit = 1; bit < 128; ++bit) {
    square = square * square;
    power = power * square;
  }
  return power;
}

void InvertAll(std::span<FieldElement> elements) {
  // Products of all before, and then from the last to the first the inverse of what is left (Montgomery).
  std::vector<FieldElement> before(elements.size());
  FieldElement product{0, 1};
  for (size_t i = 0; i < elements.size(); ++i) {
    before[i] = product;
    product = product * elements[i];
  }
  FieldElement inverse = Inverse(product);
  for (size_t i = elements.size(); i-- > 0;) {
    const FieldElement one = inverse * before[i];
    inverse = inverse * elements[i];
    elements[i] = one;
  }
}

}  // namespace rivulet::secure
