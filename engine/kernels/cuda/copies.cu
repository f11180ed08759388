#include "engine/kernels/cuda/copies.h"
#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {
namespace {

// In words of 16 bytes where both ends allow it, as almost all do: what the memory plan places begins at 64.
__global__ void CopyBytes(CopyBytesArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const char* from = a.from.of(lane);
  char* to = a.to.of(lane);
  const bool aligned = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % sizeof(uint4) == 0;
  const int64_t words = aligned ? a.bytes / static_cast<int64_t>(sizeof(uint4)) : 0;
  for (int64_t i = FirstElement(); i < words; i += ElementStride())
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (int64_t i = words * static_cast<int64_t>(sizeof(uint4)) + FirstElement(); i < a.bytes; i += ElementStride())
    to[i] = from[i];
}
RIVULET_GPU_KERNEL("copy_bytes", CopyBytesArguments, CopyBytes, GridOver((a.bytes + 15) / 16, a.lanes));

template <typename Word>
__device__ void StridedCopy(const StridedCopyArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Word* from = static_cast<const Word*>(a.from.of(lane));
  Word* to = static_cast<Word*>(a.to.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    int64_t at[2];
    a.walk.At(static_cast<uint32_t>(i), at);
    to[at[0]] = from[at[1]];
  }
}

template <typename Word>
__device__ void Fill(const FillArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Word* from = static_cast<const Word*>(a.from.of(lane));
  Word* to = static_cast<Word*>(a.to.of(lane));
  const Word value = a.from.data == nullptr ? static_cast<Word>(a.bits) : *from;
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) to[i] = value;
}

#define RIVULET_GPU_MOVING_KERNELS(Word)                                                                           \
  __global__ void StridedCopy_##Word(StridedCopyArguments a) { StridedCopy<Word>(a); }                             \
  RIVULET_GPU_KERNEL("strided_copy_" #Word, StridedCopyArguments, StridedCopy_##Word, GridOver(a.count, a.lanes)); \
  __global__ void Fill_##Word(FillArguments a) { Fill<Word>(a); }                                                  \
  RIVULET_GPU_KERNEL("fill_" #Word, FillArguments, Fill_##Word, GridOver(a.count, a.lanes));
RIVULET_GPU_MOVING_KERNELS(uint8_t)
RIVULET_GPU_MOVING_KERNELS(uint16_t)
RIVULET_GPU_MOVING_KERNELS(uint32_t)
RIVULET_GPU_MOVING_KERNELS(uint64_t)

}  // namespace
}  // namespace rivulet::gpu
