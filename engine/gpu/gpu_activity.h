// Records of device activity with the driver's times, converted to the host's clock: input of profiles and traces.
//
//   RIVULET_ASSIGN_OR_RETURN(const auto recording, GpuRecording::Start(backend));
//   stream->Label(7);                                      // labels subsequent work
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
  uint64_t label = 0;          // GpuStream::Label's value when the work was put in or its graph launched; 0: none
  int64_t begin = 0, end = 0;  // nanoseconds of std::chrono::steady_clock
  uint64_t bytes = 0;          // of a copy or fill
  std::string name;            // name of the kernel's function
};

// Readings of two clocks at the same moment.
struct ClockReading {
  int64_t device = 0, host = 0;
};

// Converts a device time to the host's clock, by linear interpolation between two readings. This corrects for different
// clock rates. If both readings have the same device time, only the first is used.
int64_t OnHostClock(const ClockReading& first, const ClockReading& last, int64_t device);

// A recording of all devices of this process. Only one can exist at a time; its destruction stops it.
class GpuRecording {
 public:
  // Starts recording. UNAVAILABLE: the back end has no records here, with the reason and remedy. FAILED_PRECONDITION:
  // another recording is active.
  static StatusOr<std::unique_ptr<GpuRecording>> Start(const RivuletGpuApi& api);
  ~GpuRecording();
  // Returns activities by begin, then by device and stream. Before, wait for the streams whose work is to be included.
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
