// A back end without hardware: Rivulet's device sources, compiled for the host, with a GPU's function table. For tests,
// and for inspecting programs without a GPU. It is far slower than the host's own kernels, and is only opened on
// request by name.
//
// Memory is the host's. Each allocation has exactly the requested size, so that the address sanitizer finds accesses
// beyond it; new and released memory is filled with 0xFF (a NaN). Streams are lazy (emulated_stream.h). A device's
// errors are reproduced: too large grids and blocks, barriers that not all threads reach, allocating and waiting during
// a capture.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

const RivuletGpuApi& EmulatedBackend();

// Settings of the devices for a test.
struct EmulatedSettings {
  int32_t devices = 2;
  size_t memory_bytes = size_t{4} << 30;  // per device
  int64_t launches_until_failure = -1;    // launches that succeed before one fails; negative: none fails
  int32_t of_another_model = -1;          // a device with another name; negative: none
  bool sums = true;                       // sums of several devices; false: as if NCCL were missing
};

// For the process, from now on. Allocated memory stays.
void SetEmulatedSettings(const EmulatedSettings& settings);

struct EmulatedCounts {
  size_t bytes_allocated = 0;  // at present, on all devices
  int64_t allocations = 0;     // total
  int64_t launches = 0;        // kernels that ran
  int64_t calls = 0;           // calls that put work into a stream or a graph: the host's work
  int64_t graph_launches = 0;  // of these
  int64_t sums = 0;            // of several devices
  int64_t copies_to_device = 0, bytes_to_device = 0, bytes_to_host = 0;
};
EmulatedCounts CountEmulated();

}  // namespace rivulet::gpu
