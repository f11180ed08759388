// Alignment of device memory.
#pragma once

#include <cstddef>

namespace rivulet {

// Of pieces of a device's memory, and of lanes within them: as the driver's own are, and whole lines of its caches.
inline constexpr size_t kGpuAlignment = 256;

constexpr size_t GpuAligned(size_t bytes) { return (bytes + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment; }

}  // namespace rivulet
