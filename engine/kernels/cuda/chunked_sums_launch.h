// Launch that joins the chunks of SumChunks.
#pragma once

#include "engine/kernels/cuda/chunked_sums.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {

// Writes `sums` · results numbers of `type` ("float", "double") to `to`: the first sum of all results, then the second.
Status JoinChunkedSums(const GpuContext& context, const ChunkedSums& chunked, int32_t sums, std::string_view type,
                       LaneSpan<void> to);

}  // namespace rivulet::gpu
