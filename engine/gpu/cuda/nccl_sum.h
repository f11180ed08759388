// Sums over devices by NCCL: the sum entries of gpu_api.h. NCCL is opened at the first request, so that the library
// loads on machines without it. A build without its headers has no sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet::gpu {

const char* NcclMissing();
int NcclSumCreate(const int32_t* devices, int32_t count, void** sum);
int NcclSumDestroy(void* sum);
int NcclSumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes);

// Returns null if `error` is not NCCL's; its error numbers begin at a different value than the others.
const char* NcclErrorText(int error);

}  // namespace rivulet::gpu
