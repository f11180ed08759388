// federated/codecs/eden.cc: blocks are rotated at random, each value is replaced by its nearest level, and blocks are
// rotated back. The transform's steps are sums and differences of pairs, on any thread.
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/host_float.h"
#include "engine/kernels/cuda/stream_device.h"

namespace rivulet::gpu {
namespace {

constexpr int kThreads = 256, kChunk = static_cast<int>(kEdenChunk);
constexpr int kMostChunks = static_cast<int>(kEdenValues / kEdenChunk);

// The position of a block (the host's EdenPlace).
struct Place {
  int64_t number, first;
  int64_t values, padded;
};

__device__ inline Place PlaceOf(int64_t count, int64_t number) {
  const int64_t whole = count / kEdenValues;
  if (number < whole) return {number, number * kEdenValues, kEdenValues, kEdenValues};
  Place place = {whole, whole * kEdenValues, 0, 0};
  while (true) {
    const int64_t left = count - place.first;
    int64_t values = kEdenValues / 2;
    while (values >= kEdenChunk && values > left) values /= 2;
    place.values = place.padded = values;
    if (values < kEdenChunk) {  // the rest, in the smallest power of two that holds it
      place.values = left;
      for (place.padded = 1; place.padded < left;) place.padded *= 2;
    }
    if (place.number == number) return place;
    place.first += place.values;
    ++place.number;
  }
}

// For the block that contains chunk `chunk`.
__device__ inline Place PlaceOfChunk(int64_t count, int64_t chunk) {
  const int64_t whole = count / kEdenValues;
  int64_t number = chunk / kMostChunks < whole ? chunk / kMostChunks : whole;
  Place place = PlaceOf(count, number);
  while (place.first + place.values <= chunk * kEdenChunk) place = PlaceOf(count, ++number);
  return place;
}

__device__ inline uint64_t SeedOf(const EdenArguments& a, int lane) {
  return PurposeStream{a.streams, a.purpose, a.op}.Word64(lane, 0);
}

// The sign bit of value `i` of a block for rotation `turn`.
__device__ inline uint32_t MinusOf(uint64_t seed, int64_t block, uint32_t turn, int64_t i) {
  const uint4 words = Philox(make_uint2(static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)),
                             make_uint4(static_cast<uint32_t>(i / 128), turn, static_cast<uint32_t>(block),
                                        static_cast<uint32_t>(static_cast<uint64_t>(block) >> 32)));
  const int word = static_cast<int>(i % 128 / 32);
  const uint32_t bits = word == 0 ? words.x : word == 1 ? words.y : word == 2 ? words.z : words.w;
  return (bits >> (i % 32) & 1) << 31;
}

__device__ inline float WithSign(float value, uint32_t minus) {
  return __uint_as_float(__float_as_uint(value) ^ minus);
}

// Sums the squares of a block's values in order, with one block of threads per block of values.
__global__ void EdenNorms(EdenArguments a) {
  __shared__ float tile[kChunk];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const Place place = PlaceOf(a.count, blockIdx.x);
  const float* const values = a.values.of(lane) + place.first;
  double square = 0;
  for (int64_t begin = 0; begin < place.values; begin += kChunk) {
    const int count = place.values - begin < kChunk ? static_cast<int>(place.values - begin) : kChunk;
    for (int i = thread; i < count; i += kThreads) tile[i] = values[begin + i];
    __syncthreads();
    if (thread == 0) {
      for (int i = 0; i < count; ++i) {
        const double value = static_cast<double>(tile[i]);
        square = __dadd_rn(square, __dmul_rn(value, value));
      }
    }
    __syncthreads();
  }
  if (thread == 0) a.squares.of(lane)[place.number] = square;
}
RIVULET_GPU_KERNEL("eden_norms", EdenArguments, EdenNorms,
                   (Grid{static_cast<uint32_t>(EdenBlocks(a.count)), 1, static_cast<uint32_t>(a.lanes.count),
                         kThreads}));

__global__ void EdenNear(EdenArguments a) {
  __shared__ float x[kChunk];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const Place place = PlaceOfChunk(a.count, blockIdx.x);
  const int64_t begin = int64_t{blockIdx.x} * kEdenChunk;
  const int size = place.padded < kChunk ? static_cast<int>(place.padded) : kChunk;
  const uint64_t seed = SeedOf(a, lane);
  float* const values = a.values.of(lane) + begin;
  for (int i = thread; i < size; i += kThreads) {
    x[i] = a.turn == kNoTurn ? values[i]
                             : WithSign(values[i], MinusOf(seed, place.number, a.turn, begin - place.first + i));
  }
  __syncthreads();
  for (int half = 1; half < size; half *= 2) {
    for (int pair = thread; pair < size / 2; pair += kThreads) {
      const int i = pair / half * 2 * half + pair % half;
      const float first = x[i], second = x[i + half];
      x[i] = HostSum(first, second);
      x[i + half] = HostDifference(first, second);
    }
    __syncthreads();
  }
  for (int i = thread; i < size; i += kThreads) values[i] = x[i];
}
RIVULET_GPU_KERNEL("eden_near", EdenArguments, EdenNear,
                   (Grid{static_cast<uint32_t>(EdenPadded(a.count) / kEdenChunk), 1,
                         static_cast<uint32_t>(a.lanes.count), kThreads}));

// The steps between chunks: a thread has one value of each chunk of a block.
__global__ void EdenFar(EdenArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Place place = PlaceOf(a.count, blockIdx.y);
  const int chunks = static_cast<int>(place.padded / kEdenChunk);
  if (chunks < 2) return;
  float* const values = a.values.of(lane) + place.first + blockIdx.x * kThreads + threadIdx.x;
  float x[kMostChunks];
  for (int c = 0; c < chunks; ++c) x[c] = values[c * kEdenChunk];
  for (int half = 1; half < chunks; half *= 2) {
    for (int pair = 0; pair < chunks / 2; ++pair) {
      const int i = pair / half * 2 * half + pair % half;
      const float first = x[i], second = x[i + half];
      x[i] = HostSum(first, second);
      x[i + half] = HostDifference(first, second);
    }
  }
  for (int c = 0; c < chunks; ++c) values[c * kEdenChunk] = x[c];
}
RIVULET_GPU_KERNEL("eden_far", EdenArguments, EdenFar,
                   (Grid{kChunk / kThreads, static_cast<uint32_t>(EdenBlocks(a.count)),
                         static_cast<uint32_t>(a.lanes.count), kThreads}));

__global__ void EdenLevels(EdenArguments a) {
  __shared__ double products[kChunk];
  const int lane = a.lanes.Number(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const Place place = PlaceOf(a.count, blockIdx.x);
  float* const values = a.values.of(lane) + place.first;
  const double square = a.squares.of(lane)[place.number];
  const double unit = __dmul_rn(__dsqrt_rn(square), __dsqrt_rn(static_cast<double>(place.padded)));
  const int last = (1 << a.bits) - 1;
  double product = 0;
  for (int64_t begin = 0; begin < place.padded; begin += kChunk) {
    const int count = place.padded - begin < kChunk ? static_cast<int>(place.padded - begin) : kChunk;
    for (int i = thread; i < count; i += kThreads) {
      const double value = static_cast<double>(values[begin + i]), scaled = __ddiv_rn(value, unit);
      int level = 0;
      while (square > 0 && level < last &&
             scaled >
                 __dmul_rn(__dadd_rn(static_cast<double>(a.levels[level]), static_cast<double>(a.levels[level + 1])),
                           0.5)) {
        ++level;
      }
      values[begin + i] = a.levels[level];
      products[i] = __dmul_rn(value, static_cast<double>(a.levels[level]));
    }
    __syncthreads();
    if (thread == 0) {
      for (int i = 0; i < count; ++i) product = __dadd_rn(product, products[i]);
    }
    __syncthreads();
  }
  if (thread != 0) return;
  float scale = 0;
  if (!(square == 0)) scale = NormalScale(HostFloat(__ddiv_rn(square, product)));
  if (!(square < INFINITY)) scale = NotANumber();
  a.scales.of(lane)[place.number] = scale;
}
RIVULET_GPU_KERNEL("eden_levels", EdenArguments, EdenLevels,
                   (Grid{static_cast<uint32_t>(EdenBlocks(a.count)), 1, static_cast<uint32_t>(a.lanes.count),
                         kThreads}));

__global__ void EdenScale(EdenArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Place place = PlaceOfChunk(a.count, blockIdx.x);
  const int64_t begin = int64_t{blockIdx.x} * kEdenChunk;
  const uint64_t seed = SeedOf(a, lane);
  const float scale = a.scales.of(lane)[place.number];
  float* const values = a.values.of(lane);
  for (int64_t i = begin + threadIdx.x; i < begin + kEdenChunk && i < a.count; i += kThreads) {
    values[i] = HostProduct(WithSign(values[i], MinusOf(seed, place.number, 0, i - place.first)), scale);
  }
}
RIVULET_GPU_KERNEL("eden_scale", EdenArguments, EdenScale,
                   (Grid{static_cast<uint32_t>(EdenPadded(a.count) / kEdenChunk), 1,
                         static_cast<uint32_t>(a.lanes.count), kThreads}));

}  // namespace
}  // namespace rivulet::gpu
