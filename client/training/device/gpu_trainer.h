// Trains many clients at once on a device beside the host. They go in step: each is a lane with parameters, gradients
// and vectors of its own, a fixed stride behind the lane before, and every kernel of a step works for all lanes that
// take part (engine/program/gpu_program.h). Base model and what is sent beside it lie there once.
//
// Clients may be of unlike sizes, and may keep something from task to task; engine/program/lane_schedule.h says who
// steps with whom. Their examples are decoded on the host, brought to the device once, and taken there in the order
// that each client's own stream says; nothing goes to and fro until the last step has been taken. Each client draws,
// steps and sums as it would in client/training/trainer.h, and its bits are the same whoever else is trained beside it.
#pragma once

#include <memory>

#include "client/training/device/training_device.h"
#include "client/training/trainer.h"

namespace rivulet {

// Not thread-safe; several may share a device, each with a stream of its own. UNIMPLEMENTED: the plan has an op without
// a kernel for devices (names it), or something that only the host does: batches of an input graph, more than 64
// numbers of a pass. Other errors are those of compiling, or of the device. The trainer takes from the device what the
// lanes that it is given need, and keeps it.
//
// MostLanes is planned: how often what one client takes goes into the memory that is left, up to `most_lanes`.
// Train, beside what Trainer says: clients of one task kind and base may be of any sizes and may keep state. A lane's
// own errors are its result's (no examples, a record that cannot be decoded, a damaged state), and the others are
// trained. RESOURCE_EXHAUSTED: so many lanes do not fit. FAILED_PRECONDITION: somebody wants to watch the steps, which
// only the host shows.
StatusOr<std::unique_ptr<Trainer>> NewGpuTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

// Whether tasks of `plan` can be trained there: the errors of NewGpuTrainer, before there is a task.
Status CheckTraining(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on);

}  // namespace rivulet
