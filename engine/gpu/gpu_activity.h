// Record of device activity, as the driver timed it, on the host's clock: input of profiles and traces.
//
//   RIVULET_ASSIGN_OR_RETURN(const auto recording, GpuRecording::Start(backend));
//   stream->Label(7);                                      // names what is put there from now on
//   …; stream->Wait();
//   RIVULET_ASSIGN_OR_RETURN(const std::vector<GpuActivity> activities, recording->Stop());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gpu/gpu_api.h"

namespace rivulet {

struct GpuActivity {
  RivuletGpuActivityKind kind = RIVULET_GPU_ACTIVITY_KERNEL;
  int device = 0;
  uint32_t stream = 0;
  uint64_t label = 0;          // GpuStream::Label's when it was put there, of a graph when that was launched; 0: none
  int64_t begin = 0, end = 0;  // nanoseconds of std::chrono::steady_clock
  uint64_t bytes = 0;          // of a copy or a fill
  std::string name;            // the kernel's function
};

// Two clocks, read at one moment.
struct ClockReading {
  int64_t device = 0, host = 0;
};

// What the host's clock showed when the device's showed `device`: on the line through two readings, so that a clock
// that goes faster than the other is followed; by the first alone where both are one.
int64_t OnHostClock(const ClockReading& first, const ClockReading& last, int64_t device);

// Of all devices of this process; one at a time. Its end stops it.
class GpuRecording {
 public:
  // UNAVAILABLE: the back end has no records here, why, and the mend. FAILED_PRECONDITION: some are being taken
  // already.
  static StatusOr<std::unique_ptr<GpuRecording>> Start(const RivuletGpuApi& api);
  ~GpuRecording();
  // By their begin; what ran at once, by device and stream. Streams whose work is to be in it have been waited for.
  StatusOr<std::vector<GpuActivity>> Stop() &&;

 private:
  explicit GpuRecording(const RivuletGpuApi& api) : api_(api) {}
  StatusOr<ClockReading> ReadClocks() const;
  Status Error(int code, std::string_view doing) const;

  const RivuletGpuApi& api_;
  ClockReading started_;
  bool running_ = false;
};

}  // namespace rivulet
