// Choice of the devices that a site trains on.
#pragma once

#include <memory>
#include <vector>

#include "engine/gpu/gpu_device.h"

namespace rivulet {

struct TrainingDevice {
  std::shared_ptr<GpuDevice> device;  // null: on the host
  // Lanes at most, where the device's memory holds as many (client/training/device/gpu_trainer.h).
  int most_lanes = 64;
  // Of the memory that the process may take of the device, at most so much stays with examples that clients were
  // trained on, for when they are trained again (client/training/device/gpu_examples.h). In [0, 1].
  double kept_examples = 0.25;
  // Who trains for one name: a plan that the device cannot train is trained on the host, and not refused.
  bool soft = false;
  // Everything is trained on the host too, and compared (client/training/device/checked_trainer.h).
  bool check = false;
  // Further devices: of a site that is several workers, of whom worker w trains on the one that Of(w) names.
  std::vector<std::shared_ptr<GpuDevice>> more = {};
  // One worker trains on all of them at once (client/training/device/gpu_team.h).
  bool team = false;

  int count() const { return device == nullptr ? 0 : 1 + static_cast<int>(more.size()); }
  // In turn. `worker` from 0; without devices itself.
  TrainingDevice Of(int worker) const {
    TrainingDevice one = *this;
    one.more.clear();
    one.team = false;
    const int number = more.empty() ? 0 : worker % count();
    if (number > 0) one.device = more[static_cast<size_t>(number - 1)];
    return one;
  }
};

}  // namespace rivulet
