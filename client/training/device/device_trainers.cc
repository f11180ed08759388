#include "client/training/device/device_trainers.h"

#include <utility>

#include "client/training/device/checked_trainer.h"
#include "client/training/device/gpu_trainer.h"
#include "client/training/failure.h"
#include "engine/base/vlog.h"

namespace rivulet {

TrainerFactory TrainersOn(TrainingDevice on) {
  if (on.device == nullptr) return nullptr;
  const NewDeviceTrainer make = on.check ? NewCheckedTrainer : NewGpuTrainer;
  return TrainersBy(make, std::move(on));
}

TrainerFactory TrainersBy(NewDeviceTrainer make, TrainingDevice on) {
  return [make, on = std::move(on)](std::shared_ptr<PassPrograms> programs,
                                    StepMonitor* monitor) -> StatusOr<std::unique_ptr<Trainer>> {
    auto trainer = make(programs, on);
    if (trainer.ok()) return trainer;
    if (!absl::IsUnimplemented(trainer.status()) || !on.soft) {
      return WithReason(trainer.status(), TaskFailure::Code::kUnimplemented, "the plan on its device");
    }
    RIVULET_VLOG(1, "trained on the host: {}", Message(trainer.status()));
    return Trainer::Create(std::move(programs), monitor);
  };
}

}  // namespace rivulet
