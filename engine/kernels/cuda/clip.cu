#include "engine/kernels/cuda/clip.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/fold_values.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256, kParts = 16;

// The same tree for each block of any run.
__device__ inline double BlockSum(double mine) {
  __shared__ double sums[kThreads];
  __shared__ double parts[kParts];
  const int thread = static_cast<int>(threadIdx.x);
  sums[thread] = mine;
  __syncthreads();
  if (thread < kParts) {
    double part = 0;
    for (int i = 0; i < kThreads / kParts; ++i) part = __dadd_rn(part, sums[thread * (kThreads / kParts) + i]);
    parts[thread] = part;
  }
  __syncthreads();
  double all = 0;
  for (int i = 0; i < kParts; ++i) all = __dadd_rn(all, parts[i]);
  return all;
}

__global__ void SumSquares(SumSquaresArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const float* const values = a.values.of(lane);
  const int64_t begin = int64_t{blockIdx.x} * kSquaresBlockValues;
  double mine = 0;
  for (int64_t i = begin + threadIdx.x; i < begin + kSquaresBlockValues && i < a.count; i += kThreads) {
    const float value = a.minus == nullptr ? Flushed(values[i]) : Difference(values[i], a.minus[i]);
    mine = __dadd_rn(mine, __dmul_rn(static_cast<double>(value), static_cast<double>(value)));
  }
  const double sum = BlockSum(mine);
  if (threadIdx.x == 0) a.squares.of(lane)[blockIdx.x] = sum;
}
RIVULET_GPU_KERNEL("sum_squares", SumSquaresArguments, SumSquares,
                   (Grid{static_cast<uint32_t>(SquaresBlocks(a.count)), 1, static_cast<uint32_t>(a.lanes.count),
                         kThreads}));

__global__ void ClipFactors(ClipFactorsArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const double* const squares = a.squares.of(lane);
  const int64_t each = (a.blocks + kThreads - 1) / kThreads, begin = static_cast<int64_t>(threadIdx.x) * each;
  double mine = 0;
  for (int64_t b = begin; b < begin + each && b < a.blocks; ++b) mine = __dadd_rn(mine, squares[b]);
  const double length = __dsqrt_rn(BlockSum(mine));
  if (threadIdx.x == 0) a.factors[lane] = length > a.norm ? __ddiv_rn(a.norm, length) : 1.0;
}
RIVULET_GPU_KERNEL("clip_factors", ClipFactorsArguments, ClipFactors,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kThreads}));

}  // namespace
}  // namespace rivulet::gpu
