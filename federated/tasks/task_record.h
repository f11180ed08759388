// Record of one task that a site sends besides the update: its result, and every scalar that the client declares.
#pragma once

#include "federated/tasks/task.h"
#include "federated/tasks/task_result.h"

namespace rivulet {

struct TaskRecord : TaskResult {
  TaskId task;
  Scalars declared;  // the plan's scalars: "train_loss"
};

}  // namespace rivulet
