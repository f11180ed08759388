// The tasks of a cluster and their addresses: "ps=host0:2222;worker=host1:2222,host2:2222".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "rpc/credentials.h"

namespace rivulet {

struct ClusterTask {
  std::string job;
  int index = 0;
  NetworkAddress address;
  std::string name() const;  // "/job:worker/replica:0/task:1"
};

class ClusterSpec {
 public:
  static constexpr size_t kMaxTasks = 1024;
  // INVALID_ARGUMENT: text of another form, a job without a task or named twice, two tasks of one address, more than
  // kMaxTasks.
  static StatusOr<ClusterSpec> Parse(std::string_view text);

  std::span<const ClusterTask> tasks() const { return tasks_; }  // by job as given, then index
  const ClusterTask* Find(std::string_view task) const;          // by name; null: there is none
  // NOT_FOUND names the jobs or the numbers that there are.
  StatusOr<ClusterTask> Task(std::string_view job, int index) const;

 private:
  std::vector<ClusterTask> tasks_;
};

}  // namespace rivulet
