#include "engine/io/crc32c.h"

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

// Appending n zero bytes is linear over GF(2) in the register: four table look-ups, one for each of its bytes.
class ZerosOperator {
 public:
  explicit ZerosOperator(size_t zero_bytes) {
    std::array<uint32_t, 32> images;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      uint32_t crc = 1u << bit;
      for (size_t i = 0; i < zero_bytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xFF];
      images[bit] = crc;
    }
    for (size_t position = 0; position < 4; ++position) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = 0;
        for (uint32_t bit = 0; bit < 8; ++bit) {
          if ((byte >> bit) & 1) crc ^= images[8 * position + bit];
        }
        tables_[position][byte] = crc;
      }
    }
  }
  uint32_t operator()(uint32_t crc) const {
    return tables_[0][crc & 0xFF] ^ tables_[1][(crc >> 8) & 0xFF] ^ tables_[2][(crc >> 16) & 0xFF] ^
           tables_[3][crc >> 24];
  }

 private:
  std::array<Table, 4> tables_;
};

__attribute__((target("sse4.2"))) inline uint64_t Step(uint64_t crc, const std::byte* data) {
  uint64_t word;
  std::memcpy(&word, data, 8);
  return _mm_crc32_u64(crc, word);
}

// The instruction has a latency of three cycles and a throughput of one: three neighbouring blocks advance at once and
// are joined by the operator. Returns how many bytes were taken.
template <size_t kBlock>
__attribute__((target("sse4.2"))) size_t UpdateThreeBlocks(uint32_t& crc, const std::byte* data, size_t size,
                                                           const ZerosOperator& zeros) {
  const std::byte* const start = data;
  for (; size >= 3 * kBlock; data += 3 * kBlock, size -= 3 * kBlock) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      a = Step(a, data + i);
      b = Step(b, data + kBlock + i);
      c = Step(c, data + 2 * kBlock + i);
    }
    crc = zeros(zeros(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
  }
  return static_cast<size_t>(data - start);
}

__attribute__((target("sse4.2"))) uint32_t UpdateHardware(uint32_t crc, const std::byte* data, size_t size) {
  constexpr size_t kLong = 2048, kShort = 128;
  static const ZerosOperator long_zeros(kLong), short_zeros(kShort);
  size_t taken = UpdateThreeBlocks<kLong>(crc, data, size, long_zeros);
  taken += UpdateThreeBlocks<kShort>(crc, data + taken, size - taken, short_zeros);
  data += taken;
  size -= taken;
  uint64_t wide = crc;
  for (; size >= 8; data += 8, size -= 8) wide = Step(wide, data);
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; ++data, --size) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*data));
  return crc;
}

#endif

}  // namespace

namespace internal {

uint32_t ExtendCrc32cPortable(uint32_t crc, std::span<const std::byte> bytes) {
  return ~UpdatePortable(~crc, bytes.data(), bytes.size());
}

bool HasCrc32cInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
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

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes) {
  static const bool hardware = internal::HasCrc32cInstruction();
  return hardware ? internal::ExtendCrc32cHardware(crc, bytes) : internal::ExtendCrc32cPortable(crc, bytes);
}

}  // namespace rivulet
