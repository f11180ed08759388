// The record of one task beside its update, as a site hands it over: its result, and every scalar that its client
// declares.
#pragma once

#include "federated/tasks/task.h"
#include "federated/tasks/task_result.h"

namespace rivulet {

struct TaskRecord : TaskResult {
  TaskId task;
  Scalars declared;  // the plan's scalars: "train_loss"
};

}  // namespace rivulet
