// Encoding of values as integer multiples of a scale, with one scale per block. A block has kValues values, the last
// block the remaining ones. Little-endian:
//
//   scale  f32              0, or a normal number (federated/codecs/block_scale.h)
//   level [values] kInByte per byte, the first in the lowest bits; unused bits of the last byte encode a zero
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "federated/codecs/block_scale.h"

namespace rivulet {

static_assert(std::endian::native == std::endian::little, "scales travel as they are in memory");

template <int64_t kValues, int64_t kInByte>
struct ScaledBlocks {
  static constexpr int64_t kBlockBytes = sizeof(float) + kValues / kInByte;

  struct Block {
    int64_t first = 0;  // index of the block's first value
    float scale = 0;
    const std::byte* levels = nullptr;
  };

  static int64_t BytesOf(int64_t elements) {
    const int64_t whole = elements / kValues, rest = elements % kValues;
    return whole * kBlockBytes + (rest > 0 ? static_cast<int64_t>(sizeof(float)) + (rest + kInByte - 1) / kInByte : 0);
  }

  // Returns the block that contains value `at`.
  static Block BlockOf(std::span<const std::byte> bytes, int64_t at) {
    Block block;
    block.first = at / kValues * kValues;
    const std::byte* const begin = bytes.data() + at / kValues * kBlockBytes;
    std::memcpy(&block.scale, begin, sizeof(block.scale));
    block.levels = begin + sizeof(block.scale);
    return block;
  }

  // Returns the first block whose scale is not valid or that has a byte of levels for which `beyond` is true; nullopt
  // if all are good. `bytes` has the length for `elements` values.
  template <typename Beyond>
  static std::optional<Block> FindBad(std::span<const std::byte> bytes, int64_t elements, const Beyond& beyond) {
    for (int64_t first = 0; first < elements; first += kValues) {
      const Block block = BlockOf(bytes, first);
      const auto end = block.levels + (std::min(kValues, elements - first) + kInByte - 1) / kInByte;
      if (!IsNormalScale(block.scale) || std::any_of(block.levels, end, beyond)) return block;
    }
    return std::nullopt;
  }
};

}  // namespace rivulet
