// List of the toolkit libraries that this library opens on demand, and whether each is installed. It is an entry of
// gpu_api.h.
#pragma once

#include <cstddef>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

inline constexpr char kCublasLtLibrary[] = "libcublasLt.so.13";

const RivuletGpuLibrary* ToolkitLibraries(size_t* count);

}  // namespace rivulet::gpu
