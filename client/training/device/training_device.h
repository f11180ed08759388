// Choice of the devices that a site trains on.
#pragma once

#include <memory>
#include <vector>

#include "engine/gpu/gpu_device.h"

namespace rivulet {

struct TrainingDevice {
  std::shared_ptr<GpuDevice> device;  // null: on the host
  // The most lanes, if the device's memory is large enough (client/training/device/gpu_trainer.h).
  int most_lanes = 64;
  // Fraction of the memory that the process may use on the device, for examples kept for a client's next training
  // (client/training/device/gpu_examples.h). In [0, 1].
  double kept_examples = 0.25;
  // A plan that the device cannot train is trained on the host, and not refused.
  bool soft = false;
  // Everything is trained on the host too, and compared (client/training/device/checked_trainer.h).
  bool check = false;
  // Further devices, for a site of several workers: worker w trains on Of(w).
  std::vector<std::shared_ptr<GpuDevice>> more = {};
  // One worker trains on all of them at once (client/training/device/gpu_team.h).
  bool team = false;

  int count() const { return device == nullptr ? 0 : 1 + static_cast<int>(more.size()); }
  // The device of `worker`, from 0, in turn; without devices, itself.
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
