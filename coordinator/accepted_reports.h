// Reports that survive this process (server.checkpoint_reports). Before an update or a site's partial sum is folded and
// acknowledged, it is stored in a file, and the machine's snapshot that names its tasks in a row. The process that
// resumes the run offers these tasks under their names again, and folds the stored reports as if they had been sent.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "coordinator/commit/version_writer.h"
#include "coordinator/intake/report_store.h"
#include "coordinator/intake/upload.h"
#include "coordinator/run_events.h"
#include "coordinator/run_history.h"
#include "coordinator/run_parts.h"
#include "engine/base/mutex.h"
#include "federated/tasks/task_record.h"

namespace rivulet {

class Rounds;  // coordinator/rounds.h

// What the process before this one has acknowledged, and whose tasks are offered again.
struct LeftReport {
  TaskId task;  // of a partial, one of them
  std::string client_id;
  int64_t round = 0;
  std::optional<KeptPartial> partial;
};

// Thread-safe. Its lock is taken alone.
class AcceptedReports {
 public:
  // All must outlive it. `keeps`: this process keeps reports; it counts those of the one before in any case.
  // `flush` writes the rows of closed attempts.
  AcceptedReports(std::string run_id, bool keeps, bool resumed, const RunParts& parts, FileSystem& file_system,
                  const std::string& folder, RunHistory& history, RunEvents& events, Rounds& rounds,
                  std::function<Status()> flush)
      : run_id_(std::move(run_id)),
        keeps_(keeps),
        resumed_(resumed),
        parts_(parts),
        history_(history),
        events_(events),
        rounds_(rounds),
        flush_(std::move(flush)),
        store_(file_system, folder) {}
  bool keeps() const { return keeps_; }
  ReportStore& store() { return store_; }
  // Those partials of the process before that cannot be counted are said to be lost.
  void FindPartials(int64_t round);

  // On the thread that brought it, without a lock while the disk works. UNAVAILABLE: nothing of it is kept, and its
  // client may send it again.
  Status Keep(const Upload::Whole& whole) EXCLUDES(mutex_);
  // Nullopt: one of its tasks is resolved by now, so that it will be refused.
  StatusOr<std::optional<KeptPartial>> Keep(const std::string& site, std::span<const TaskRecord> records,
                                            std::span<const std::byte> bytes) EXCLUDES(mutex_);
  // Of attempts whose rows are written.
  void Forget(std::span<const PendingAttempt> attempts);
  // On the run's thread, for what was offered just now.
  void Count(const LeftReport& left);

 private:
  Status NameInHistory(const TaskId& task) EXCLUDES(mutex_);
  Status AskAgain(const Status& why) EXCLUDES(mutex_);
  Status CountUpdate(const LeftReport& left);
  Status CountPartial(const KeptPartial& left);

  const std::string run_id_;
  const bool keeps_, resumed_;
  const RunParts& parts_;
  RunHistory& history_;
  RunEvents& events_;
  Rounds& rounds_;
  const std::function<Status()> flush_;
  ReportStore store_;
  Mutex mutex_;
  std::set<TaskId> named_tasks_ GUARDED_BY(mutex_);  // by the snapshot that was written for reports last
  bool said_unkept_ GUARDED_BY(mutex_) = false;      // that reports cannot be kept
};

}  // namespace rivulet
