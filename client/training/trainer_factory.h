// Factory of trainers, chosen by the program: on the host, on a device, or on several.
#pragma once

#include <functional>
#include <memory>

#include "client/training/trainer.h"
#include "engine/base/status.h"

namespace rivulet {

// Null: a trainer on the host (Trainer::Create). Errors of devices have a reason (client/training/failure.h).
using TrainerFactory =
    std::function<StatusOr<std::unique_ptr<Trainer>>(std::shared_ptr<PassPrograms> programs, StepMonitor* monitor)>;

}  // namespace rivulet
