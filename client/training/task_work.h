// Digest of everything that determines a task's training, except the client's data. Tasks with equal digests are the
// same work: a result or checkpoint on disk serves any of them.
#pragma once

#include "engine/base/sha256.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

Digest WorkOf(const Task& task);

}  // namespace rivulet
