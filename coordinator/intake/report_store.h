// Store of accepted updates and sites' partial sums on disk, from before their acknowledgement until their version is
// written (server.checkpoint_reports). A coordinator that dies loses none that it has acknowledged.
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
  TaskResult measured;  // as its site stated it; nothing of a partial, whose records have it
  std::string update;   // as it was sent
};

// A partial on disk, by what tells it apart.
struct KeptPartial {
  std::string path;
  std::string site;           // who brought it
  std::vector<TaskId> tasks;  // that are folded in it
};

class ReportStore {
 public:
  // Finds what a process before this one has left; makes nothing. `fs` must outlive this.
  ReportStore(FileSystem& fs, const std::string& run_folder);
  // Of a run that is over, or goes: its reports and the folder that they lie in. What else is in it stays, and so does
  // the folder with it.
  static void RemoveAll(FileSystem& fs, const std::string& run_folder);
  // Reads whose partials the process before has left, as their files' names do not tell. Why some cannot be counted: a
  // sentence for each that is damaged, which goes.
  std::vector<std::string> FindPartials();

  // RESOURCE_EXHAUSTED: the disk is full, and nothing of it is there.
  Status Keep(const TaskId& task, const Digest& base, const TaskResult& measured, std::string_view update);
  // The same of a partial of these tasks, which all start from `base`; `partial` as its site has sent it.
  StatusOr<KeptPartial> KeepPartial(const std::string& site, std::span<const TaskId> tasks, const Digest& base,
                                    std::string_view partial);
  // DATA_LOSS: damaged. NOT_FOUND.
  StatusOr<KeptReport> Read(const TaskId& task) const;
  StatusOr<KeptReport> Read(const KeptPartial& partial) const;  // its bytes as `update`
  // Its report, and the partial that it is in. What cannot be removed now is removed at the next start that finds its
  // task written.
  void Remove(const TaskId& task);
  void Remove(const KeptPartial& partial);

  // True, once: the process before this one has left a report of this task.
  bool TakeLeft(const TaskId& task);
  // Once: the partial that it has left, now that this was called for each of its tasks.
  std::optional<KeptPartial> TakeLeftPartial(const TaskId& task);
  // Those that nobody asked for: their tasks are in versions that are written, or in none that will be.
  void RemoveLeft();

 private:
  // What lies there of one partial.
  struct Partial : KeptPartial {
    std::set<TaskId> awaited;  // of one that was left: tasks that were not asked for yet
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
