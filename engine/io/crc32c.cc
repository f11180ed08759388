#include "engine/io/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rivulet {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // reflected

using Table = std::array<uint32_t, 256>;

// tables[k][b]: the register after byte `b` and then `k` zero bytes.
constexpr std::array<Table, 8> MakeTables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = MakeTables();

// The register after `bytes`, without the inversions at both ends; eight bytes a step ("slicing by 8").
uint32_t UpdatePortable(uint32_t crc, const std::byte* data, size_t size) {
  if constexpr (std::endian::native == std::endian::little) {
    for (; size >= 8; data += 8, size -= 8) {
      uint32_t low, high;
      std::memcpy(&low, data, 4);
      std::memcpy(&high, data + 4, 4);
      low ^= crc;
      crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^ kTables[5][(low >> 16) & 0xFF] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
            kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
    }
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(*data)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)

constexpr size_t kMostWords = 256;  // of a block

// Appending n zero bytes multiplies the register by x^(8n) modulo the polynomial. Entry i is for 8 i bytes: x^(64 i -
// 33), since a carry-less product of two reflected registers lies one bit off, and the instruction that reduces it
// multiplies by x^32 (Gopal et al., "Fast CRC Computation for iSCSI Polynomial", 2011).
constexpr std::array<uint32_t, 2 * kMostWords + 1> MakeZeros() {
  std::array<uint32_t, 2 * kMostWords + 1> zeros{};
  uint32_t power = 1;  // x^31, reflected
  for (size_t i = 1; i < zeros.size(); ++i) {
    zeros[i] = power;
    for (size_t byte = 0; byte < 8; ++byte) power = (power >> 8) ^ kTables[0][power & 0xFF];
  }
  return zeros;
}
constexpr auto kZeros = MakeZeros();

__attribute__((target("sse4.2,pclmul"))) inline uint64_t Product(uint64_t crc, uint32_t factor) {
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_clmulepi64_si128(
      _mm_cvtsi64_si128(static_cast<int64_t>(crc)), _mm_cvtsi64_si128(static_cast<int64_t>(factor)), 0)));
}

__attribute__((target("sse4.2"))) inline uint64_t Step(uint64_t crc, const std::byte* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return _mm_crc32_u64(crc, word);
}

// The instruction has a latency of three cycles and a throughput of one: three adjacent blocks advance at once
// and are combined. Blocks are a third of the data, so that few bytes of any record are processed one after the
// other.
__attribute__((target("sse4.2,pclmul"))) uint32_t UpdateHardware(uint32_t crc, const std::byte* data, size_t size) {
  constexpr size_t kFewestWords = 6;  // below this joining costs more than it gains
  uint64_t wide = crc;
  for (size_t words; (words = std::min(size / 24, kMostWords)) >= kFewestWords;) {
    const std::byte *second = data + 8 * words, *third = second + 8 * words;
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < 8 * words; i += 8) {
      wide = Step(wide, data + i);
      b = Step(b, second + i);
      c = Step(c, third + i);
    }
    wide = _mm_crc32_u64(0, Product(wide, kZeros[2 * words]) ^ Product(b, kZeros[words])) ^ c;
    data += 24 * words;
    size -= 24 * words;
  }
  for (; size >= 8; data += 8, size -= 8) wide = Step(wide, data);
  crc = static_cast<uint32_t>(wide);
  if (size >= 4) {
    uint32_t word;
    std::memcpy(&word, data, 4);
    crc = _mm_crc32_u32(crc, word);
    data += 4;
    size -= 4;
  }
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return crc;
}

#define RIVULET_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

// Lanes of 128 bits, moved on by as many bytes as the factors are for, and added to the lanes that lie there. Of its
// two words the first goes 8 bytes further. Moving a word on by n bytes multiplies it by x^(8n): x^32 of that is where
// a factor lies in its word, x is the bit that a product of reflected words lies off, and the rest, x^(8n - 33), is an
// entry of kZeros.
RIVULET_WIDE inline __m512i FactorsFor(size_t bytes) {
  const int64_t first = kZeros[bytes / 8 + 1], second = kZeros[bytes / 8];
  return _mm512_set4_epi64(second, first, second, first);
}
RIVULET_WIDE inline __m512i MoveOn(__m512i lanes, __m512i factors, __m512i there) {
  constexpr int kExclusiveOr = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, factors, 0x00),
                                   _mm512_clmulepi64_epi128(lanes, factors, 0x11), there, kExclusiveOr);
}
RIVULET_WIDE inline __m512i Load(const std::byte* data) { return _mm512_loadu_si512(data); }

// Sixteen lanes walk over the bytes together, in one stream, and are added to one another at the end (Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009). In the caches that is three times
// the instruction's pace; from memory a third more, as one stream is fetched ahead where three are not.
RIVULET_WIDE uint32_t UpdateWide(uint32_t crc, const std::byte* data, size_t size) {
  constexpr size_t kVector = 64, kStep = 4 * kVector;
  if (size < 2 * kStep) return UpdateHardware(crc, data, size);
  __m512i a = _mm512_xor_si512(Load(data), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  __m512i b = Load(data + kVector), c = Load(data + 2 * kVector), d = Load(data + 3 * kVector);
  const __m512i by_step = FactorsFor(kStep), by_vector = FactorsFor(kVector);
  for (data += kStep, size -= kStep; size >= kStep; data += kStep, size -= kStep) {
    a = MoveOn(a, by_step, Load(data));
    b = MoveOn(b, by_step, Load(data + kVector));
    c = MoveOn(c, by_step, Load(data + 2 * kVector));
    d = MoveOn(d, by_step, Load(data + 3 * kVector));
  }
  const __m512i last = MoveOn(MoveOn(MoveOn(a, by_vector, b), by_vector, c), by_vector, d);
  alignas(kVector) std::byte left[kVector];
  _mm512_store_si512(left, last);
  return UpdateHardware(UpdateHardware(0, left, kVector), data, size);
}

#endif

}  // namespace

namespace internal {

uint32_t ExtendCrc32cPortable(uint32_t crc, std::span<const std::byte> bytes) {
  return ~UpdatePortable(~crc, bytes.data(), bytes.size());
}

bool HasCrc32cInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
  return false;
#endif
}

uint32_t ExtendCrc32cHardware(uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  return ~UpdateHardware(~crc, bytes.data(), bytes.size());
#else
  return ExtendCrc32cPortable(crc, bytes);
#endif
}

bool HasWideProducts() {
#if defined(__x86_64__)
  return HasCrc32cInstruction() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("vpclmulqdq") != 0;
#else
  return false;
#endif
}

uint32_t ExtendCrc32cWide(uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  return ~UpdateWide(~crc, bytes.data(), bytes.size());
#else
  return ExtendCrc32cPortable(crc, bytes);
#endif
}

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes) {
  static const auto extend = internal::HasWideProducts()        ? internal::ExtendCrc32cWide
                             : internal::HasCrc32cInstruction() ? internal::ExtendCrc32cHardware
                                                                : internal::ExtendCrc32cPortable;
  return extend(crc, bytes);
}

}  // namespace rivulet
