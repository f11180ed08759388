// Reports that survive this process (server.checkpoint_reports). Before an update or partial sum is aggregated and
// acknowledged, it is stored in a file, and the machine's snapshot, which names its tasks, in a row. The process that
// resumes the run offers these tasks again under the same names, and aggregates the stored reports as if newly sent.
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

// A report that an earlier process acknowledged; this process offers its tasks again.
struct LeftReport {
  TaskId task;  // for a partial sum: one of its tasks
  std::string client_id;
  int64_t round = 0;
  std::optional<KeptPartial> partial;
};

// The stored reports of one run: stores, aggregates and removes them. Thread-safe. Its lock is taken alone.
class AcceptedReports {
 public:
  // All arguments must outlive it. `keeps`: this process stores reports; it aggregates an earlier process's reports in
  // any case. `flush` writes the rows of closed attempts.
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
  // Finds the partial sums that an earlier process accepted, and logs those that cannot be aggregated as lost.
  void FindPartials(int64_t round);

  // Stores an update, on the thread that received it; no lock is held during disk access. UNAVAILABLE: nothing of it is
  // stored, and its client may send it again.
  Status Keep(const Upload::Whole& whole) EXCLUDES(mutex_);
  // Stores a partial sum. Nullopt: one of its tasks is already resolved, so the partial sum will be refused.
  StatusOr<std::optional<KeptPartial>> Keep(const std::string& site, std::span<const TaskRecord> records,
                                            std::span<const std::byte> bytes) EXCLUDES(mutex_);
  // Removes the reports of attempts with written rows.
  void Forget(std::span<const PendingAttempt> attempts);
  // Aggregates a stored report, on the run's thread, after its tasks were offered again.
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
  std::set<TaskId> named_tasks_ GUARDED_BY(mutex_);  // tasks in the latest snapshot that was written for reports
  bool said_unkept_ GUARDED_BY(mutex_) = false;      // the failure to store reports was logged
};

}  // namespace rivulet
