// Alignment of device memory.
#pragma once

#include <cstddef>

namespace rivulet {

// Alignment of allocations and of lanes within them: that of the driver's allocations, and whole cache lines.
inline constexpr size_t kGpuAlignment = 256;

constexpr size_t GpuAligned(size_t bytes) { return (bytes + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment; }

}  // namespace rivulet
