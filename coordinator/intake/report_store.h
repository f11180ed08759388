// Store of accepted updates and sites' partial sums on disk, from before their acknowledgement until their version is
// written (server.checkpoint_reports). So a coordinator that fails loses none that it has acknowledged.
//
//   whole ──→ Keep ──→ folded, acknowledged ──→ its attempt is written ──→ Remove
//                └──→ (the process dies) ──→ TakeLeft: the next one offers the tasks again ──→ Read, folded
//
// A file for each, mode 0600: <run's folder>/reports/<32 digits of the task's SHA-256>.report, and <32 digits of that
// of all tasks' names>.partial. Thread-safe; calls of one task are the caller's to order.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"
#include "federated/tasks/task_result.h"

namespace rivulet {

struct KeptReport {
  Digest base;          // the model that it was trained from
  TaskResult measured;  // as its site reported it; empty for a partial sum, whose records contain it
  std::string update;   // the original bytes
};

// Identity of a stored partial sum.
struct KeptPartial {
  std::string path;
  std::string site;           // its sender
  std::vector<TaskId> tasks;  // all tasks in the sum
};

class ReportStore {
 public:
  // Finds the files of an earlier process; creates nothing. `fs` must outlive this.
  ReportStore(FileSystem& fs, const std::string& run_folder);
  // Removes the reports and their folder of a run that is over or removed. Other files stay, and the folder then stays
  // too.
  static void RemoveAll(FileSystem& fs, const std::string& run_folder);
  // Reads the partial sums of an earlier process, since their files' names do not show their sites. Removes damaged
  // ones, and gives an error for each.
  std::vector<std::string> FindPartials();

  // Stores an update. RESOURCE_EXHAUSTED: the disk is full, and nothing is stored.
  Status Keep(const TaskId& task, const Digest& base, const TaskResult& measured, std::string_view update);
  // Stores a partial sum of these tasks, which all start from `base`; `partial` is as sent by its site.
  StatusOr<KeptPartial> KeepPartial(const std::string& site, std::span<const TaskId> tasks, const Digest& base,
                                    std::string_view partial);
  // DATA_LOSS: damaged. NOT_FOUND: not stored.
  StatusOr<KeptReport> Read(const TaskId& task) const;
  StatusOr<KeptReport> Read(const KeptPartial& partial) const;  // its bytes as `update`
  // Removes the task's report, and the partial sum that contains it. A file that cannot be removed now is removed by
  // the next process, once that finds its task written.
  void Remove(const TaskId& task);
  void Remove(const KeptPartial& partial);

  // True, once: an earlier process stored a report of this task.
  bool TakeLeft(const TaskId& task);
  // Once, on the call for the last of its tasks: the partial sum that an earlier process stored.
  std::optional<KeptPartial> TakeLeftPartial(const TaskId& task);
  // Removes reports that were not taken: their tasks are in written versions, or in none that will be made.
  void RemoveLeft();

 private:
  // A stored partial sum.
  struct Partial : KeptPartial {
    std::set<TaskId> awaited;  // for one of an earlier process: tasks that were not taken yet
  };
  std::string PathOf(const TaskId& task) const;
  Status Write(const std::string& path, std::initializer_list<std::string_view> pieces);
  void Index(std::shared_ptr<Partial> partial) REQUIRES(mutex_);

  FileSystem& fs_;
  const std::string folder_;
  Mutex folder_mutex_;
  bool folder_made_ GUARDED_BY(folder_mutex_) = false;
  Mutex mutex_;
  std::set<std::string> left_ GUARDED_BY(mutex_);  // paths
  std::map<TaskId, std::shared_ptr<Partial>> partials_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
