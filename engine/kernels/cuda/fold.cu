#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/float16_device.h"
#include "engine/kernels/cuda/fold.h"
#include "engine/kernels/cuda/fold_values.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256, kPerThread = static_cast<int>(kFoldBlockValues / kThreads);
// Lanes per step of adding up tallies, each with some of the block's threads: as many as shared memory holds.
constexpr int kTile = 4, kParts = kThreads / kTile, kPerPart = kThreads / kParts;

// The value after decoding, to the bit.
__device__ inline float Decoded(float value, FoldCodec codec) {
  if (codec == FoldCodec::kFloat16) return Float16::Of(value).value();
  if (codec == FoldCodec::kBFloat16) return Bfloat16::Of(value).value();
  return value;
}

struct Tally {
  double squares;
  uint32_t nonzeros, lost;
  int32_t bad;  // index in the block; kFoldBlockValues: none
};

__device__ inline void Add(Tally& to, const Tally& more) {
  to.squares += more.squares;
  to.nonzeros += more.nonzeros;
  to.lost += more.lost;
  if (more.bad < to.bad) to.bad = more.bad;
}

__device__ inline Tally Empty() { return {0, 0, 0, static_cast<int32_t>(kFoldBlockValues)}; }

// A block processes its values of all lanes in turn, and adds to each sum once.
template <typename Sum>
__device__ inline void FoldBlock(const FoldValuesArguments<Sum>& a) {
  __shared__ Tally tallies[kTile][kThreads];
  __shared__ Tally parts[kTile][kParts];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t begin = int64_t{blockIdx.x} * kFoldBlockValues;
  uint64_t addends[kPerThread] = {};
  for (int tile = 0; tile < a.lanes.count; tile += kTile) {
    for (int t = 0; t < kTile; ++t) {
      Tally tally = Empty();
      if (tile + t < a.lanes.count) {
        const int lane = a.lanes.Number(static_cast<uint32_t>(tile + t));
        const float* const values = a.values.of(lane);
        const double factor = a.factors == nullptr ? 1.0 : a.factors[lane];
        const double scale = a.scales[tile + t];
#pragma unroll
        for (int k = 0; k < kPerThread; ++k) {
          const int32_t at = k * kThreads + thread;
          const int64_t i = begin + at;
          if (i >= a.count) continue;
          float value = values[i];
          if (a.minus != nullptr) value = Difference(value, a.minus[i]);
          if (factor != 1.0) value = Flushed(__double2float_rn(__dmul_rn(static_cast<double>(Flushed(value)), factor)));
          value = Decoded(value, a.codec);
          const int32_t bits = __float_as_int(value) & kMagnitude;
          if (bits > a.bound_bits) {
            if (at < tally.bad) tally.bad = at;
            continue;
          }
          const double wide = static_cast<double>(Flushed(value));
          const long long addend = __double2ll_rn(__dmul_rn(wide, scale));
          addends[k] += static_cast<uint64_t>(addend);
          tally.squares = __dadd_rn(tally.squares, __dmul_rn(wide, wide));
          tally.nonzeros += bits != 0 ? 1u : 0u;
          tally.lost += bits != 0 && addend == 0 ? 1u : 0u;
        }
      }
      tallies[t][thread] = tally;
    }
    __syncthreads();
    Tally part = Empty();
    for (int i = 0; i < kPerPart; ++i) Add(part, tallies[thread / kParts][thread % kParts * kPerPart + i]);
    parts[thread / kParts][thread % kParts] = part;
    __syncthreads();
    if (thread < kTile && tile + thread < a.lanes.count && a.tallies != nullptr) {
      Tally all = Empty();
      for (int i = 0; i < kParts; ++i) Add(all, parts[thread][i]);
      FoldTally& to = a.tallies[(tile + thread) * a.tally_stride + blockIdx.x];
      to.squares = all.squares;
      to.nonzeros = all.nonzeros;
      to.lost = all.lost;
      to.first_bad = all.bad < kFoldBlockValues ? a.first + begin + all.bad : INT64_MAX;
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = begin + k * kThreads + thread;
    if (i >= a.count) continue;
    const uint64_t sum = static_cast<uint64_t>(static_cast<int64_t>(a.sums[i]));
    a.sums[i] = static_cast<Sum>(static_cast<int64_t>(a.sign < 0 ? sum - addends[k] : sum + addends[k]));
  }
}

__global__ void FoldValues64(FoldValuesArguments<int64_t> a) { FoldBlock(a); }
RIVULET_GPU_KERNEL("fold_values_64", FoldValuesArguments<int64_t>, FoldValues64,
                   (Grid{static_cast<uint32_t>(FoldBlocks(a.count)), 1, 1, kThreads}));

__global__ void FoldValues32(FoldValuesArguments<int32_t> a) { FoldBlock(a); }
RIVULET_GPU_KERNEL("fold_values_32", FoldValuesArguments<int32_t>, FoldValues32,
                   (Grid{static_cast<uint32_t>(FoldBlocks(a.count)), 1, 1, kThreads}));

__global__ void FoldTallies(FoldTalliesArguments a) {
  __shared__ FoldTally parts[kParts];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t each = (a.blocks + kParts - 1) / kParts;
  FoldTally part = {0, 0, 0, INT64_MAX};
  for (int64_t b = thread * each; b < (thread + 1) * each && b < a.blocks; ++b) {
    const FoldTally& one = a.tallies[blockIdx.z * a.blocks + b];
    part.squares += one.squares;
    part.nonzeros += one.nonzeros;
    part.lost += one.lost;
    if (one.first_bad < part.first_bad) part.first_bad = one.first_bad;
  }
  parts[thread] = part;
  __syncthreads();
  if (thread != 0) return;
  FoldTally all = {0, 0, 0, INT64_MAX};
  for (int i = 0; i < kParts; ++i) {
    all.squares += parts[i].squares;
    all.nonzeros += parts[i].nonzeros;
    all.lost += parts[i].lost;
    if (parts[i].first_bad < all.first_bad) all.first_bad = parts[i].first_bad;
  }
  a.totals[blockIdx.z] = all;
}
RIVULET_GPU_KERNEL("fold_tallies", FoldTalliesArguments, FoldTallies,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes), kParts}));

}  // namespace
}  // namespace rivulet::gpu
