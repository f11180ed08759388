#include "engine/kernels/cuda/chunked_sums_launch.h"
#include "engine/kernels/cuda/reduction.h"

namespace rivulet::gpu {

Status JoinChunkedSums(const GpuContext& context, const ChunkedSums& chunked, int32_t sums, std::string_view type,
                       LaneSpan<void> to) {
  ReductionArguments join{};
  join.y = to;
  join.partial = chunked.partial;
  join.results = sums * chunked.results;
  join.count = chunked.count;
  join.chunks = chunked.chunks;
  join.kept.axes = 1;
  join.kept.strides[0][0] = 1;
  return Put(context, fmt::format("Sum_{}_chunks", type), join);
}

}  // namespace rivulet::gpu
