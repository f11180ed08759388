// The digest of all that decides what a task's training gives, but the client's data: tasks of one digest are one work,
// whose result or checkpoint on disk serves any of them.
#pragma once

#include "engine/base/sha256.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

Digest WorkOf(const Task& task);

}  // namespace rivulet
