// How trainers of plans are made, by whoever decides where a site trains.
#pragma once

#include <functional>
#include <memory>

#include "client/training/trainer.h"
#include "engine/base/status.h"

namespace rivulet {

// Null: a trainer on the host (Trainer::Create). Errors of devices bear a reason (client/training/failure.h).
using TrainerFactory =
    std::function<StatusOr<std::unique_ptr<Trainer>>(std::shared_ptr<PassPrograms> programs, StepMonitor* monitor)>;

}  // namespace rivulet
