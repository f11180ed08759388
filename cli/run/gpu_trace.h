// GPU activity in a run's trace, beside the host's spans.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/training/device/training_device.h"
#include "engine/gpu/gpu_activity.h"
#include "engine/profile/tracer.h"

namespace rivulet {

class GpuTrace {
 public:
  // Starts recording if there are a tracer and a device. A failure is passed to `note`, and is no error.
  static GpuTrace Start(Tracer* tracer, const TrainingDevice& device,
                        const std::function<void(const std::string&)>& note);
  // Writes all records. Call it while devices are idle and the trace is open.
  Status Finish();

 private:
  Tracer* tracer_ = nullptr;
  std::unique_ptr<GpuRecording> recording_;  // null: there is nothing to write
};

}  // namespace rivulet
