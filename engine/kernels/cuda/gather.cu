#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/elementwise_functions.h"
#include "engine/kernels/cuda/gather.h"

namespace rivulet::gpu {
namespace {

__device__ int64_t IndexAt(const void* indices, int64_t i, int32_t wide) {
  return wide != 0 ? static_cast<const int64_t*>(indices)[i] : int64_t{static_cast<const int32_t*>(indices)[i]};
}

template <typename Word>
__device__ void Gather(const GatherArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Word* params = static_cast<const Word*>(a.params.of(lane));
  Word* out = static_cast<Word*>(a.out.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    uint32_t place = static_cast<uint32_t>(i);
    const uint32_t inner = a.inner.Split(place), index = a.index_count.Split(place);
    // The remaining index counts [batch, outer].
    const int64_t batch = a.outer.Quotient(place);
    const int64_t row = IndexAt(a.indices.of(lane), batch * a.index_count.divisor + index, a.wide);
    const bool inside = row >= 0 && row < a.size;
    out[i] = inside ? params[(place * a.size + row) * a.inner.divisor + inner] : static_cast<Word>(~Word{0});
  }
}

// One thread sums each element of a segment, over all slices
// in order, as on the CPU, so threads never conflict.
template <typename T>
__device__ void SegmentSum(const SegmentSumArguments& a) {
  using Sum = functions::Wrapping<T>;
  const int lane = a.lanes.Number(blockIdx.z);
  const T* data = static_cast<const T*>(a.data.of(lane));
  const void* ids = a.ids.of(lane);
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    uint32_t segment = static_cast<uint32_t>(i);
    const uint32_t inner = a.inner.Split(segment);
    Sum sum = 0;
    for (int id = 0; id < a.id_count; ++id)
      if (IndexAt(ids, id, a.wide) == segment) sum += static_cast<Sum>(data[int64_t{id} * a.inner.divisor + inner]);
    static_cast<T*>(a.out.of(lane))[i] = static_cast<T>(sum);
  }
}

template <typename Word>
__device__ void OneHot(const OneHotArguments& a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const Word on = *static_cast<const Word*>(a.on.of(lane)), off = *static_cast<const Word*>(a.off.of(lane));
  for (int64_t i = FirstElement(); i < a.count; i += ElementStride()) {
    uint32_t outer = static_cast<uint32_t>(i);
    const uint32_t inner = a.inner.Split(outer), depth = a.depth.Split(outer);
    const int64_t index = IndexAt(a.indices.of(lane), int64_t{outer} * a.inner.divisor + inner, a.wide);
    static_cast<Word*>(a.out.of(lane))[i] = index == depth ? on : off;
  }
}

#define RIVULET_GPU_GATHER_KERNELS(Word)                                                           \
  __global__ void Gather_##Word(GatherArguments a) { Gather<Word>(a); }                            \
  RIVULET_GPU_KERNEL("gather_" #Word, GatherArguments, Gather_##Word, GridOver(a.count, a.lanes)); \
  __global__ void OneHot_##Word(OneHotArguments a) { OneHot<Word>(a); }                            \
  RIVULET_GPU_KERNEL("one_hot_" #Word, OneHotArguments, OneHot_##Word, GridOver(a.count, a.lanes));
RIVULET_GPU_GATHER_KERNELS(uint8_t)
RIVULET_GPU_GATHER_KERNELS(uint16_t)
RIVULET_GPU_GATHER_KERNELS(uint32_t)
RIVULET_GPU_GATHER_KERNELS(uint64_t)

#define RIVULET_GPU_SEGMENT_KERNEL(T)                                         \
  __global__ void SegmentSum_##T(SegmentSumArguments a) { SegmentSum<T>(a); } \
  RIVULET_GPU_KERNEL("segment_sum_" #T, SegmentSumArguments, SegmentSum_##T, GridOver(a.count, a.lanes));
RIVULET_GPU_SEGMENT_KERNEL(float)
RIVULET_GPU_SEGMENT_KERNEL(double)
RIVULET_GPU_SEGMENT_KERNEL(int32_t)
RIVULET_GPU_SEGMENT_KERNEL(int64_t)

}  // namespace
}  // namespace rivulet::gpu
