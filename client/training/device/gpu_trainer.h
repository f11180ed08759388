// Trainer of many clients at once on a device beside the host. Each client is a lane with its own parameters, gradients
// and vectors, a fixed stride behind the lane before. Every kernel of a step works for all lanes that take part
// (engine/program/gpu_program.h). The base model and broadcast vectors are stored once.
//
// Clients may differ in size and may keep state; engine/program/lane_schedule.h decides which of them step together.
// Their examples are decoded on the host, copied to the device once and read there in the order of each client's own
// stream. Nothing is copied between the first step and the last. Each client draws, steps and sums as in
// client/training/trainer.h, and its bits do not depend on the others.
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
