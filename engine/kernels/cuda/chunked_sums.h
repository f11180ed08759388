// Long sums of many results at once, in chunks for different blocks: "…" writes each chunk's sums, in double, to
// scratch memory, and "Sum_T_chunks" (reduction.cu) joins them in order. The length of a chunk is a constant, so the
// order depends on the shape alone.
#pragma once

#include <algorithm>

#include "engine/kernels/cuda/lane_span.h"

namespace rivulet::gpu {

struct ChunkedSums {
  static constexpr int32_t kParts = 8;               // threads per chunk of one result
  static constexpr int32_t kResults = 256 / kParts;  // results per block
  static constexpr int32_t kChunk = 512;
  LaneSpan<uint64_t> partial;  // [sums, results, chunks], the bits of doubles
  int32_t results, count, chunks;

  static ChunkedSums Of(int32_t results, int32_t count) {
    return {{}, results, count, std::max(1, (count + kChunk - 1) / kChunk)};
  }
  uint32_t blocks() const { return static_cast<uint32_t>((results + kResults - 1) / kResults * chunks); }
  // Bytes for `sums` sums per result.
  size_t bytes(int32_t sums) const {
    return static_cast<size_t>(sums) * static_cast<size_t>(results) * static_cast<size_t>(chunks) * sizeof(uint64_t);
  }
};

}  // namespace rivulet::gpu
