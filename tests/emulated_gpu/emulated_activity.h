// The emulated device's activity records, through the same entries of gpu_api.h as CUPTI's. They allow tests of clock
// alignment and node names without a GPU. The clock has a different origin.
#pragma once

#include <cstdint>
#include <string>

#include "engine/gpu/gpu_api.h"
#include "tests/emulated_gpu/emulated_stream.h"

namespace rivulet::gpu::emulated {

// Wraps `work` so that it is recorded when it runs during a recording, with the calling thread's present label. Call
// with BackendMutex, also when running the result.
Work Recorded(const Stream& stream, RivuletGpuActivityKind kind, std::string name, uint64_t bytes, Work work);

// A graph's work: all of it gets the calling thread's present label, as on a device.
Work UnderOneLabel(Work work);

// The entries of the table.
const char* ActivityMissing();
int ActivityStart();
int ActivityStop(void* taker, RivuletGpuActivityTaker take);
int ActivityClock(int64_t* nanoseconds);
int ActivityLabel(uint64_t label);

}  // namespace rivulet::gpu::emulated
