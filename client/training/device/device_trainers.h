// Factories of trainers on a device beside the host.
#pragma once

#include "client/training/device/training_device.h"
#include "client/training/trainer_factory.h"

namespace rivulet {

// Trainers on the first device of `on` (client/training/device/gpu_trainer.h), compared with the host's where `on` says
// so (client/training/device/checked_trainer.h). Where `on` is soft, plans that the device cannot train are trained on
// the host. Null where `on` has no device.
TrainerFactory TrainersOn(TrainingDevice on);

// As `make` gives them, on devices of `on`: with its errors as reasons, and with the host's trainers for plans that the
// devices cannot train, where `on` is soft.
using NewDeviceTrainer = StatusOr<std::unique_ptr<Trainer>> (*)(std::shared_ptr<PassPrograms> programs,
                                                                const TrainingDevice& on);
TrainerFactory TrainersBy(NewDeviceTrainer make, TrainingDevice on);

}  // namespace rivulet
