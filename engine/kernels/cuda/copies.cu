#include "engine/kernels/cuda/copies.h"
#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu {
namespace {

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
