// Sums over devices by NCCL: the sum entries of gpu_api.h. It is opened when somebody asks for it, so that the library
// loads where it is not installed; built without its headers, there are no sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet::gpu {

const char* NcclMissing();
int NcclSumCreate(const int32_t* devices, int32_t count, void** sum);
int NcclSumDestroy(void* sum);
int NcclSumAdd(void* sum, void* const* streams, void* const* numbers, size_t count, int32_t bytes);

// Null: not one of NCCL's errors, which are told apart from others by where they begin.
const char* NcclErrorText(int error);

}  // namespace rivulet::gpu
