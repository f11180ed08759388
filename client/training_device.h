// Where a site trains.
#pragma once

#include <memory>

#include "engine/gpu/gpu_device.h"

namespace rivulet {

struct TrainingDevice {
  std::shared_ptr<GpuDevice> device;  // null: on the host
  // Lanes at most, where the device's memory holds as many (client/gpu_trainer.h).
  int most_lanes = 64;
};

}  // namespace rivulet
