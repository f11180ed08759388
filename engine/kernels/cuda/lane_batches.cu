#include "engine/kernels/cuda/device_code.h"
#include "engine/kernels/cuda/lane_batches.h"

namespace rivulet::gpu {
namespace {

__global__ void GatherRows(GatherRowsArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const uint32_t* const order = a.order.of(lane) + a.progress.of(lane)->taken;
  const uint32_t* const examples = a.examples.of(lane);
  uint32_t* const feed = a.feed.of(lane);
  const int64_t words = a.rows * a.row_words;
  for (int64_t i = FirstElement(); i < words; i += ElementStride()) {
    const int64_t row = i / a.row_words, word = i - row * a.row_words;
    feed[i] = examples[static_cast<int64_t>(order[row]) * a.row_words + word];
  }
}
RIVULET_GPU_KERNEL("gather_rows", GatherRowsArguments, GatherRows, GridOver(a.rows* a.row_words, a.lanes));

// A float times a count below 2^29 is exact in float64, so fusing product and sum makes no difference.
__global__ void CountStep(CountStepArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  const int i = static_cast<int>(threadIdx.x);
  if (i < a.count) {
    const double times = (a.plain >> i & 1) != 0 ? 1.0 : static_cast<double>(a.examples);
    a.sums.of(lane)[i] += static_cast<double>(a.values.of(lane)[i * a.value_stride]) * times;
  }
  if (i != 0) return;
  a.progress.of(lane)->taken += static_cast<uint64_t>(a.examples);
  ++a.steps[lane];
}
RIVULET_GPU_KERNEL("count_step", CountStepArguments, CountStep,
                   (Grid{1, 1, static_cast<uint32_t>(a.lanes.count), kMostCounted}));

__global__ void FillWords(FillWordsArguments a) {
  const int lane = a.lanes.Number(blockIdx.z);
  uint32_t* const to = a.to.of(lane);
  const uint32_t* const from = a.from.data == nullptr ? nullptr : a.from.of(lane);
  for (int64_t i = FirstElement(); i < a.words; i += ElementStride()) to[i] = from == nullptr ? a.word : from[i];
}
RIVULET_GPU_KERNEL("fill_words", FillWordsArguments, FillWords, GridOver(a.words, a.lanes));

}  // namespace
}  // namespace rivulet::gpu
