// Team of a process's devices that train as one. Tasks are dealt out by their examples; each device trains its share in
// its own thread (client/training/device/gpu_trainer.h). The devices add their sums among themselves
// (engine/gpu/gpu_sum.h), so one vector of integers comes to the host for any number of devices. A task's bits are the
// same on any of them, as long as they are of one model.
//
// Devices that cannot add among themselves each serve a separate worker, and the workers' partial sums are merged.
#pragma once

#include <memory>

#include "client/training/device/training_device.h"
#include "client/training/trainer_factory.h"

namespace rivulet {

// Makes a trainer on all devices of `on`, at least two. Errors are those of NewGpuTrainer and GpuSum::Create.
StatusOr<std::unique_ptr<Trainer>> NewGpuTeam(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

// Makes team trainers if `on.team`, else as TrainersOn (client/training/device/device_trainers.h).
TrainerFactory TrainersOnAll(TrainingDevice on);

// Whether a team is of use: there are several devices, they can add among themselves, and all updates of `plan` are
// folded on them. Errors are those of CheckTraining.
StatusOr<bool> TrainsAsTeam(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on);

}  // namespace rivulet
