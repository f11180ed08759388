// The arithmetic that makes a fold independent of order: weight × value, exact in double, rounded once (to nearest,
// ties to even) to a multiple of 2^-s, and added in 64-bit integers. Dispatched at run time to the widest vectors of
// the CPU; every target gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/check.h"
#include "engine/base/status.h"

namespace rivulet {

struct FoldCounts {
  int64_t nonzeros = 0;
  int64_t lost = 0;  // non-zero values that contributed 0
};
// sums[i] += round(values[i] × scale) for little-endian float32 `values` of any alignment; scale = weight × 2^s, and
// |values[i] × scale| ≤ 2^62. Reads 4 bytes and updates 8 per element.
FoldCounts FoldFloats(std::span<const std::byte> values, double scale, std::span<int64_t> sums);

// The index of the first value that is NaN, infinite or beyond ±2^value_bits; the number of values when there is none.
size_t FirstBeyond(std::span<const std::byte> values, int value_bits);

// means[i] = float(double(sums[i]) / denominator).
void DivideSums(std::span<const int64_t> sums, double denominator, std::span<float> means);

}  // namespace rivulet
