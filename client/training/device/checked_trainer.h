// Trainer that trains each task on device and host and compares the results, to validate a kernel, a driver or a new
// GPU. The device's update is aggregated. It is slow: the host trains one task after another.
//
// Each step program is first compared tensor by tensor, once for each batch size (client/training/device/step_check.h).
// An op that differs is reported by name. Each training is then compared by the parts of the update, the declared
// numbers and the steps. Sums in another order move values, and later steps amplify that, so an update may differ by
// kUpdateTolerance of its norm.
#pragma once

#include <memory>

#include "client/training/device/training_device.h"
#include "client/training/trainer.h"

namespace rivulet {

// ‖device − host‖ / ‖host‖ of a part; for declared numbers relative to 1 + their magnitude.
inline constexpr double kUpdateTolerance = 1e-2;

// As NewGpuTrainer, with its errors. A result's status may also be INTERNAL: the device differs; with the op or part,
// the value, and the difference.
StatusOr<std::unique_ptr<Trainer>> NewCheckedTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

}  // namespace rivulet
