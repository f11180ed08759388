// Updates that were accepted, on disk from before they are acknowledged until the version that they are in is written
// (server.checkpoint_reports), so that a coordinator that dies loses none that it has acknowledged.
//
//   whole ──→ Keep ──→ folded, acknowledged ──→ its attempt is written ──→ Remove
//                └──→ (the process dies) ──→ Left: the next one offers the task again ──→ Read, folded
//
// A file for each, <run's folder>/reports/<32 digits of the task's SHA-256>.report, mode 0600. Thread-safe; calls of
// one task are the caller's to order.
#pragma once

#include <set>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet {

struct KeptReport {
  Digest base;  // the model that it was trained from
  double train_seconds = 0;
  std::string update;  // as it was sent
};

class ReportStore {
 public:
  // Finds what a process before this one has left; makes nothing. `fs` must outlive this.
  ReportStore(FileSystem& fs, const std::string& run_folder);
  // Of a run that is over, or goes: its reports and the folder that they lie in. What else is in it stays, and so does
  // the folder with it.
  static void RemoveAll(FileSystem& fs, const std::string& run_folder);

  // RESOURCE_EXHAUSTED: the disk is full, and nothing of it is there.
  Status Keep(const TaskId& task, const Digest& base, double train_seconds, std::string_view update);
  // DATA_LOSS: damaged. NOT_FOUND.
  StatusOr<KeptReport> Read(const TaskId& task) const;
  // What cannot be removed now is removed at the next start that finds its task written.
  void Remove(const TaskId& task);

  // True, once: the process before this one has left a report of this task.
  bool TakeLeft(const TaskId& task);
  // Those that nobody asked for: their tasks are in versions that are written, or in none that will be.
  void RemoveLeft();

 private:
  std::string PathOf(const TaskId& task) const;

  FileSystem& fs_;
  const std::string folder_;
  Mutex mutex_;
  std::set<std::string> left_ GUARDED_BY(mutex_);  // paths
};

}  // namespace rivulet
