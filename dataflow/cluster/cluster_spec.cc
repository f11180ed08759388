#include "dataflow/cluster/cluster_spec.h"

#include <algorithm>
#include <set>

#include "engine/base/join.h"
#include "engine/base/shown_text.h"
#include "engine/graph/device_name.h"

namespace rivulet {
namespace {

// The pieces between separators; an empty text has none.
std::vector<std::string_view> PiecesOf(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

}  // namespace

std::string ClusterTask::name() const { return fmt::format("/job:{}/replica:0/task:{}", job, index); }

StatusOr<ClusterSpec> ClusterSpec::Parse(std::string_view text) {
  ClusterSpec spec;
  std::set<std::string> jobs, addresses;
  for (const std::string_view piece : PiecesOf(text, ';')) {
    const size_t equals = piece.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return InvalidArgument("the cluster's '{}' is no JOB=HOST:PORT,…", Shortened(piece));
    const std::string job(piece.substr(0, equals));
    if (const StatusOr<DeviceName> named = ParseDeviceName("/job:" + job); !named.ok() || named->job != job)
      return InvalidArgument("'{}' is no name of a job; write a letter, then letters, digits and '_'", Shortened(job));
    if (!jobs.insert(job).second) return InvalidArgument("the cluster names the job '{}' twice", job);
    int index = 0;
    for (const std::string_view address : PiecesOf(piece.substr(equals + 1), ',')) {
      StatusOr<NetworkAddress> parsed = ParseAddress(address);
      if (!parsed.ok()) return Annotate(parsed.status(), fmt::format("the cluster's job '{}'", job));
      if (parsed->port == 0)
        return InvalidArgument("the cluster's job '{}' has '{}', and others need its port", job, Shortened(address));
      if (!addresses.insert(parsed->ToString()).second)
        return InvalidArgument("the cluster has two tasks at '{}'", parsed->ToString());
      if (spec.tasks_.size() == kMaxTasks) return InvalidArgument("a cluster has at most {} tasks", kMaxTasks);
      spec.tasks_.push_back({job, index++, *std::move(parsed)});
    }
    if (index == 0) return InvalidArgument("the cluster's job '{}' has no task", job);
  }
  if (spec.tasks_.empty()) return InvalidArgument("the cluster has no task; write JOB=HOST:PORT,…;JOB=…");
  return spec;
}

const ClusterTask* ClusterSpec::Find(std::string_view task) const {
  const auto found = std::ranges::find_if(tasks_, [&](const ClusterTask& entry) { return entry.name() == task; });
  return found == tasks_.end() ? nullptr : &*found;
}

StatusOr<ClusterTask> ClusterSpec::Task(std::string_view job, int index) const {
  std::vector<std::string> jobs;
  int count = 0;
  for (const ClusterTask& task : tasks_) {
    if (task.job == job && task.index == index) return task;
    if (task.job == job) ++count;
    if (jobs.empty() || jobs.back() != task.job) jobs.push_back(task.job);
  }
  if (count == 0) return NotFound("the cluster has no job '{}'; it has {}", Shortened(job), Join(jobs, ", "));
  return NotFound("the cluster's job '{}' has no task {}; it has {}, counted from 0", job, index, count);
}

}  // namespace rivulet
