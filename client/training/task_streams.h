// Random streams of a task. They follow from the task alone: the client's key, base version and ordinal. The trainer,
// the process and the tasks before it cannot change a draw.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.h"
#include "federated/plan/pass.h"
#include "federated/random/streams.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

StreamKey StreamOf(const Task& task, Purpose purpose);

// The order in which an epoch takes `size` examples: as stored, or shuffled. Epochs are counted over all passes, so
// that no two of a task have the same order.
void OrderInto(std::vector<uint32_t>& order, const Task& task, uint64_t epoch, int64_t size, bool shuffle);

// The number of the task's epochs in a pass. A device without time for all of its work does some of it
// (LocalPass::partial_work): the number is drawn once per task.
int64_t EpochsOf(const Task& task, const LocalPass& pass);

}  // namespace rivulet
