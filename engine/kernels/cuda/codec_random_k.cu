// federated/codecs/random_k.cc: draws the sent values one after the other (Knuth, volume 2, algorithm 3.4.2 S), with
// Draws::Below. All threads of a lane draw, one decides.
#include "engine/kernels/cuda/block_sums.h"
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"
#include "engine/kernels/cuda/stream_device.h"

namespace rivulet::gpu {
namespace {

constexpr int kTile = 1024;

struct Smaller {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

// If Draws::Below rejects a number, it draws again, and all later draws move by one: so a tile ends before it.
__global__ void RandomK(RandomKArguments a) {
  __shared__ uint64_t draws[kTile];
  __shared__ uint8_t kept[kTile];
  __shared__ int shared[kBlockThreads];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const Team team = TeamOf(kBlockThreads, false);
  const PurposeStream stream = {a.streams, a.purpose, a.op};
  float* const values = a.values.of(lane);
  int bad = 0;
  for (int64_t i = thread; i < a.count; i += kBlockThreads) bad |= !IsFinite(values[i]);
  const bool finite = SumOfTeam(team, bad, shared) == 0;
  const double scale = finite ? __ddiv_rn(static_cast<double>(a.count), static_cast<double>(a.k)) : NAN;
  uint64_t to_come = static_cast<uint64_t>(a.k), number = 0;
  for (int64_t done = 0; done < a.count;) {
    const int count = a.count - done < kTile ? static_cast<int>(a.count - done) : kTile;
    int drawn = count;
    for (int i = thread; i < count; i += kBlockThreads) {
      const uint64_t bound = static_cast<uint64_t>(a.count - done - i);
      const uint64_t word = stream.Word64(lane, number + static_cast<uint64_t>(i)), low = word * bound;
      draws[i] = __umul64hi(word, bound);
      if (low < bound && low < (0 - bound) % bound && i < drawn) drawn = i;
    }
    drawn = JoinTeam(team, drawn, shared, Smaller());
    if (thread == 0) {
      for (int i = 0; i < drawn; ++i) {
        const bool keeps = draws[i] < to_come;
        kept[i] = keeps;
        to_come -= keeps;
      }
    }
    __syncthreads();
    for (int i = thread; i < drawn; i += kBlockThreads) {
      float& value = values[done + i];
      value = kept[i] ? HostFloat(__dmul_rn(static_cast<double>(value), scale)) : 0.0f;
    }
    done += drawn;
    number += static_cast<uint64_t>(drawn) + (drawn < count ? 1 : 0);
    __syncthreads();
  }
}
RIVULET_GPU_KERNEL("random_k", RandomKArguments, RandomK,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kBlockThreads}));

}  // namespace
}  // namespace rivulet::gpu
