// Factories of trainers on a device beside the host.
#pragma once

#include "client/training/device/training_device.h"
#include "client/training/trainer_factory.h"

namespace rivulet {

// Makes trainers on the first device of `on` (client/training/device/gpu_trainer.h), or checked ones if `on.check`
// (client/training/device/checked_trainer.h). If `on.soft`, plans that the device cannot train are trained on the host.
// Returns null if `on` has no device.
TrainerFactory TrainersOn(TrainingDevice on);

// Makes trainers by `make`, with the same fallback to the host; attaches reasons to its errors.
using NewDeviceTrainer = StatusOr<std::unique_ptr<Trainer>> (*)(std::shared_ptr<PassPrograms> programs,
                                                                const TrainingDevice& on);
TrainerFactory TrainersBy(NewDeviceTrainer make, TrainingDevice on);

}  // namespace rivulet
