// The record of a task whose client has declared these scalars.
#pragma once

#include <utility>

#include "federated/tasks/task_record.h"
#include "federated/updates/task_columns.h"

namespace rivulet {

inline TaskRecord RecordOf(TaskId task, Scalars declared) {
  TaskRecord record;
  record.task = std::move(task);
  record.declared = std::move(declared);
  ReadDeclared(record.declared, record);
  return record;
}

}  // namespace rivulet
