// The emulated device's own records of what it does, by the entries of gpu_api.h that CUPTI's come by, so that their
// alignment with the host's clock and the names of their nodes are tested where no GPU is. Its clock has another zero.
#pragma once

#include <cstdint>
#include <string>

#include "engine/gpu/gpu_api.h"
#include "tests/emulated_gpu/emulated_stream.h"

namespace rivulet::gpu::emulated {

// `work` that tells of itself when it runs while records are taken, with the label that the calling thread has now.
// With BackendMutex, as what it gives back is run.
Work Recorded(const Stream& stream, RivuletGpuActivityKind kind, std::string name, uint64_t bytes, Work work);

// A graph's work: all of it bears the label that the calling thread has now, as on a device.
Work UnderOneLabel(Work work);

// As the table has them.
const char* ActivityMissing();
int ActivityStart();
int ActivityStop(void* taker, RivuletGpuActivityTaker take);
int ActivityClock(int64_t* nanoseconds);
int ActivityLabel(uint64_t label);

}  // namespace rivulet::gpu::emulated
