// Records of device activity by CUPTI: the activity entries of gpu_api.h. CUPTI is opened when records are first
// requested, so that the library loads on machines without it. A build without its headers has no records.
#pragma once

#include <cstdint>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

const char* CuptiMissing();
int CuptiStart();
int CuptiStop(void* taker, RivuletGpuActivityTaker take);
int CuptiClock(int64_t* nanoseconds);
int CuptiLabel(uint64_t label);

// Returns null if `error` is not CUPTI's; its error numbers begin at a different value than the runtime's.
const char* CuptiErrorText(int error);

}  // namespace rivulet::gpu
