// Sums over the emulated devices, through the same entries of gpu_api.h as NCCL's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet::gpu::emulated {

int SumCreate(const int32_t* devices, int32_t count, void** sum);
int SumDestroy(void* sum);
int SumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes);

}  // namespace rivulet::gpu::emulated
