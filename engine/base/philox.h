// Philox4x32-10, a counter-based random generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). The block at a counter is a pure function of (key, counter), so threads and restarts cannot change the draws.
#pragma once

#include <array>
#include <cstdint>

namespace rivulet {

struct PhiloxKey {
  std::array<uint32_t, 2> words{};
  bool operator==(const PhiloxKey&) const = default;
};
using PhiloxBlock = std::array<uint32_t, 4>;

inline PhiloxBlock Philox4x32(PhiloxKey key, PhiloxBlock counter) {
  uint32_t k0 = key.words[0], k1 = key.words[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// [0, 1) with 24 bits, as float has them.
inline float UniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// One stream of draws inside a key: the first counter word (and 16 bits of the second) count blocks, the others say
// whose stream it is. federated/random/streams.h lays out the words for clients and rounds.
struct StreamKey {
  PhiloxKey key;
  uint16_t ordinal = 0;  // of this client's lease at this base version
  uint32_t round = 0;    // base round
  uint8_t purpose = 0;   // federated/random/streams.h
  // Block `index` (48 bits) of the stream of operation `op` (24 bits).
  PhiloxBlock Block(uint64_t index, uint32_t op) const {
    return Philox4x32(
        key, {static_cast<uint32_t>(index), (uint32_t{ordinal} << 16) | static_cast<uint32_t>((index >> 32) & 0xFFFF),
              round, (uint32_t{purpose} << 24) | (op & 0xFFFFFF)});
  }
};

}  // namespace rivulet
