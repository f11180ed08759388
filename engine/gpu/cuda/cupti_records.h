// Records of device activity by CUPTI: the activity entries of gpu_api.h. CUPTI is opened at the first request for
// records, so that the library loads on machines without it. A build without its headers has no records.
#pragma once

#include <cstdint>

#include "engine/gpu/gpu_api.h"

namespace rivulet::gpu {

const char* CuptiMissing();
int CuptiStart();
int CuptiStop(void* taker, RivuletGpuActivityTaker take);
int CuptiClock(int64_t* nanoseconds);
int CuptiLabel(uint64_t label);

// Null: not one of CUPTI's errors, which are told apart from the runtime's by where they begin.
const char* CuptiErrorText(int error);

}  // namespace rivulet::gpu
