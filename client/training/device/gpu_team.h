// Several devices of one process that train as one: tasks are dealt out by their examples, each device trains its share
// as many lanes (client/training/device/gpu_trainer.h) in a thread of its own, and what each has folded is added on the
// devices (engine/gpu/gpu_sum.h), so that one vector of integers comes to the host, whatever their number. A task's
// bits are those that any of them gives, as long as they are of one model.
//
// Where devices cannot add among themselves, each is a worker's, and the workers' partials are merged.
#pragma once

#include <memory>

#include "client/training/device/training_device.h"
#include "client/training/trainer_factory.h"

namespace rivulet {

// On all devices of `on`, at least two. Errors as NewGpuTrainer's and GpuSum::Create's.
StatusOr<std::unique_ptr<Trainer>> NewGpuTeam(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

// Of what `on` names: all of its devices as a team where it says so, else TrainersOn
// (client/training/device/device_trainers.h).
TrainerFactory TrainersOnAll(TrainingDevice on);

// Whether it is of use: there are several devices, they add among themselves, and all updates of `plan` are folded on
// them. Errors as CheckTraining's.
StatusOr<bool> TrainsAsTeam(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on);

}  // namespace rivulet
