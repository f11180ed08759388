// Trains every task on a device and on the host, and compares what came of it: for who does not trust a kernel, a
// driver or a new GPU. What is folded is the device's. Slow, since the host trains everything as well, one task after
// the other.
//
// First each step program is compared tensor by tensor (client/training/device/step_check.h): once for each size of a
// batch, and an op that gives something else is told by its name. Then, of each training, the parts of the update, what
// is declared and the steps. Sums in another order move values, and steps carry that on, so an update may be off by
// kUpdateTolerance of its norm.
#pragma once

#include <memory>

#include "client/training/device/training_device.h"
#include "client/training/trainer.h"

namespace rivulet {

// ‖device − host‖ / ‖host‖ of a part; of declared numbers relative to 1 + their magnitude.
inline constexpr double kUpdateTolerance = 1e-2;

// As NewGpuTrainer, whose errors it has. A result's status, beside what Trainer says, INTERNAL: the device differs, in
// which op or part, at which value, and by how much.
StatusOr<std::unique_ptr<Trainer>> NewCheckedTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

}  // namespace rivulet
