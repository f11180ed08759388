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

// Makes a trainer, which is not thread-safe; several may share a device, each with its own stream. UNIMPLEMENTED: the
// plan has an op without a kernel for devices (names it), or something that only the host supports: batches of an input
// graph, more than 64 numbers of a pass. Other errors are those of compiling, or of the device. The trainer allocates
// device memory as its lanes need it, and keeps it.
//
// MostLanes is the free memory divided by the planned memory of one client, up to `most_lanes`.
// Train, beyond Trainer's contract: clients of one task kind and base may be of any sizes and may keep state. A lane's
// own errors are in its result (no examples, a record that cannot be decoded, a damaged state), and the others are
// trained. RESOURCE_EXHAUSTED: so many lanes do not fit. FAILED_PRECONDITION: an observer is set; only the host shows
// steps.
StatusOr<std::unique_ptr<Trainer>> NewGpuTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on);

// Checks whether the device can train `plan`, before there is a task. Errors are those of NewGpuTrainer.
Status CheckTraining(const std::shared_ptr<const Plan>& plan, const TrainingDevice& on);

}  // namespace rivulet
