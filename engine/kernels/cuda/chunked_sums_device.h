// Device code of ChunkedSums.
#pragma once

#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/chunked_sums.h"

namespace rivulet::gpu {

// add(result, i, sums) adds element i of a result to its kSums sums. Every thread of the block must call SumChunks.
template <int kSums, typename Add>
__device__ void SumChunks(const ChunkedSums& c, int lane, const Add& add) {
  __shared__ double shared[kBlockThreads];
  const Team team = TeamOf(ChunkedSums::kParts, true);
  const int chunk = static_cast<int>(blockIdx.x) % c.chunks;
  const int result = static_cast<int>(blockIdx.x) / c.chunks * ChunkedSums::kResults + team.member;
  const int begin = chunk * ChunkedSums::kChunk, end = min(begin + ChunkedSums::kChunk, c.count);
  double sums[kSums];
  for (int s = 0; s < kSums; ++s) sums[s] = 0;
  for (int i = begin + team.part; result < c.results && i < end; i += ChunkedSums::kParts) add(result, i, sums);
  for (int s = 0; s < kSums; ++s) {
    const double sum = SumOfTeam(team, sums[s], shared);
    if (team.part == 0 && result < c.results)
      c.partial.of(lane)[(static_cast<int64_t>(s) * c.results + result) * c.chunks + chunk] =
          static_cast<uint64_t>(__double_as_longlong(sum));
  }
}

}  // namespace rivulet::gpu
