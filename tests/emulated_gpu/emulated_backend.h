// A back end without hardware: the sources of our device code, compiled for the host, behind the same table as a GPU's.
// For tests, and for looking at a program where no GPU is; it is far slower than the host's own kernels, and is opened
// only by who asks for it by name.
//
// Memory is the host's, each allocation of exactly the size that was asked for, so that the address sanitizer finds
// what is read or written beside it; new and released memory is filled with 0xFF (a NaN). Streams are lazy
// (emulated_stream.h). What a device refuses is refused: grids and blocks too large, barriers that not all threads
// reach, allocating and waiting while a stream is captured.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

const RivuletGpuApi& EmulatedBackend();

// What a test may want of the devices.
struct EmulatedSettings {
  int32_t devices = 2;
  size_t memory_bytes = size_t{4} << 30;  // of each
  int64_t launches_until_failure = -1;    // the launch after so many fails when it runs; negative: none
  int32_t of_another_model = -1;          // the device that has another name; negative: none
  bool sums = true;                       // of several devices; false: as where NCCL is not
};

// Of the process, from now on. Memory that is allocated stays.
void SetEmulatedSettings(const EmulatedSettings& settings);

struct EmulatedCounts {
  size_t bytes_allocated = 0;  // now, on all devices
  int64_t allocations = 0;     // ever
  int64_t launches = 0;        // of kernels, that ran
  int64_t calls = 0;           // that put something into a stream or a graph: the host's work
  int64_t graph_launches = 0;  // of these
  int64_t sums = 0;            // of several devices
  int64_t copies_to_device = 0, bytes_to_device = 0, bytes_to_host = 0;
};
EmulatedCounts CountEmulated();

}  // namespace rivulet::gpu
