// The libraries that this one opens when they are asked for, and whether they are here: the entry of gpu_api.h that
// tells of them.
#pragma once

#include <cstddef>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

inline constexpr char kCublasLtLibrary[] = "libcublasLt.so.13";

const RivuletGpuLibrary* ToolkitLibraries(size_t* count);

}  // namespace rivulet::gpu
