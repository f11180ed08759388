// federated/codecs/top_k.cc: the k values largest in magnitude, the first among equal ones. No value is moved:
// magnitudes are counted in integers, so that the order of threads does not matter.
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/fold_values.h"

namespace rivulet::gpu {
namespace {

constexpr int kPerThread = static_cast<int>(kTopKBlock / kBlockThreads);

__device__ inline uint32_t MagnitudeOf(float value) {
  return static_cast<uint32_t>(__float_as_int(value) & kMagnitude);
}

__global__ void TopKClear(TopKArguments a) {
  uint32_t* const bins = a.bins.of(a.lanes.Number(blockIdx.z));
  for (int64_t i = FirstElement(); i < kTopKBins; i += ElementStride()) bins[i] = 0;
}
RIVULET_GPU_KERNEL("top_k_clear", TopKArguments, TopKClear, GridOver(kTopKBins, a.lanes));

__global__ void TopKCount(TopKArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const float* const values = a.values.of(lane);
  uint32_t* const bins = a.bins.of(lane);
  const uint32_t high = a.lower ? a.cut.of(lane)->high : 0;
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    const uint32_t magnitude = MagnitudeOf(values[i]), upper = magnitude >> kTopKLowBits;
    if (!a.lower) {
      atomicAdd(bins + upper, 1u);
    } else if (upper == high) {
      atomicAdd(bins + (magnitude & ((1u << kTopKLowBits) - 1)), 1u);
    }
  }
}
RIVULET_GPU_KERNEL("top_k_count", TopKArguments, TopKCount, GridOver(a.count, a.lanes));

// Searches from the largest bin down to the k-th value.
__global__ void TopKFindCut(TopKArguments a) {
  __shared__ int64_t sums[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t* const bins = a.bins.of(lane);
  constexpr int kBins = static_cast<int>(kTopKBins) / kBlockThreads;
  int64_t sum = 0;
  for (int i = 0; i < kBins; ++i) sum += bins[thread * kBins + i];
  sums[thread] = sum;
  __syncthreads();
  if (thread != 0) return;
  TopKCut& cut = *a.cut.of(lane);
  int64_t left = a.lower ? cut.left : a.k;
  int part = kBlockThreads - 1;
  for (; sums[part] < left; --part) left -= sums[part];
  int bin = (part + 1) * kBins - 1;
  for (; bins[bin] < left; --bin) left -= bins[bin];
  if (a.lower) {
    cut.least = cut.high << kTopKLowBits | static_cast<uint32_t>(bin);
  } else {
    cut.high = static_cast<uint32_t>(bin);
  }
  cut.left = left;
}
RIVULET_GPU_KERNEL("top_k_cut", TopKArguments, TopKFindCut,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads}));

// Number of a thread's values with exactly the least magnitude; its values are adjacent.
__device__ inline int TiesOf(const TopKArguments& a, int lane, int64_t begin) {
  const uint32_t least = a.cut.of(lane)->least;
  int ties = 0;
  for (int64_t i = begin; i < begin + kPerThread && i < a.count; ++i)
    ties += MagnitudeOf(a.values.of(lane)[i]) == least;
  return ties;
}

__device__ inline int64_t BeginOfThread() { return int64_t{blockIdx.x} * kTopKBlock + threadIdx.x * kPerThread; }

__global__ void TopKTies(TopKArguments a) {
  __shared__ int shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int all = SumOfTeam(TeamOf(kBlockThreads, false), TiesOf(a, lane, BeginOfThread()), shared);
  if (threadIdx.x == 0) a.counts.of(lane)[blockIdx.x] = all;
}
RIVULET_GPU_KERNEL("top_k_ties", TopKArguments, TopKTies,
                   (Grid{static_cast<uint32_t>(TopKBlocks(a.count)), 1, static_cast<uint32_t>(a.lanes.count),
                         kBlockThreads}));

__global__ void TopKKeep(TopKArguments a) {
  __shared__ int ties[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t begin = BeginOfThread();
  ties[thread] = TiesOf(a, lane, begin);
  __syncthreads();
  int64_t tie = a.counts.of(lane)[blockIdx.x];
  for (int before = 0; before < thread; ++before) tie += ties[before];
  const TopKCut cut = *a.cut.of(lane);
  float* const values = a.values.of(lane);
  for (int64_t i = begin; i < begin + kPerThread && i < a.count; ++i) {
    const uint32_t magnitude = MagnitudeOf(values[i]);
    const bool kept = magnitude > cut.least || (magnitude == cut.least && tie < cut.left);
    tie += magnitude == cut.least;
    if (!kept) values[i] = 0;
  }
}
RIVULET_GPU_KERNEL("top_k_keep", TopKArguments, TopKKeep,
                   (Grid{static_cast<uint32_t>(TopKBlocks(a.count)), 1, static_cast<uint32_t>(a.lanes.count),
                         kBlockThreads}));

}  // namespace
}  // namespace rivulet::gpu
