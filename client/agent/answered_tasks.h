// Tasks of secure aggregation that this client has answered to the end. A second answer could reveal shares for another
// set of clients. So each task is on disk before the answer leaves, and is never answered again.
#pragma once

#include <string>

#include "engine/base/file_system.h"
#include "federated/tasks/task.h"

namespace rivulet {

// Set of answered tasks. Not thread-safe. Memory: none; an empty file per task.
class AnsweredTasks {
 public:
  // Opens the records in `folder`, which is created if missing; its parent exists. `fs` must outlive this.
  AnsweredTasks(FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}
  bool Contains(const TaskId& task) const;
  // Returns when the record is durable. Errors are the file system's.
  Status Add(const TaskId& task);

 private:
  std::string PathOf(const TaskId& task) const;

  FileSystem& fs_;
  const std::string folder_;
};

}  // namespace rivulet
