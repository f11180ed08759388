// The states of clients between tasks: for each client, the task that proposed its state. If the clients' sites share
// no disk, the proposals themselves are stored beside the run's models. A simulation stores them likewise, so a run may
// even move from one to the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/commit/version_writer.h"
#include "coordinator/ledger/state_book.h"
#include "coordinator/run_parts.h"
#include "engine/base/mutex.h"
#include "federated/states/state_store.h"

namespace rivulet {

// Thread-safe; holds no lock over I/O. `oldest` is always the oldest version that is, or will be, measured.
class ClientStates {
 public:
  // `parts` must outlive it. `names`: tasks name their states for any plan. `store`: null if the coordinator stores no
  // states. `folded`: tasks in versions of the run so far, oldest first.
  ClientStates(std::string run_id, const RunParts& parts, bool names, std::unique_ptr<ClientStateStore> store,
               const std::vector<TaskId>& folded, std::optional<int64_t> oldest);
  bool stores() const { return store_ != nullptr; }

  // The task whose proposal is the initial state of such a task; "": none. A version is measured with the states at the
  // time when it was made, even if clients have trained since.
  TaskId Of(TaskKind kind, const std::string& client_id, int64_t base_version) const;
  bool HadOwn(const std::string& client_id, int64_t version) const;
  // Records that the state which this task started from is lost.
  void Lost(const TaskName& task);

  // Proposals, on disk; the caller gives the client of each task.
  StatusOr<std::string> Read(const std::string& client_id, const TaskId& state_of) const;
  Status Propose(const TaskId& task, std::string state) const;
  void Forget(const TaskId& task) const;

  // Records a closed attempt: proposals of aggregated tasks become states.
  void Closed(const PendingAttempt& attempt);
  // Removes proposals from disk that are in no version.
  void ForgetUnfolded(const PendingAttempt& attempt) const;
  void Written(const PendingAttempt& attempt);  // its rows are written
  // Whether this client's earlier state must stay on disk: the version with `task` came after one that is measured with
  // the states of its time, and the measures of that one are not durable yet.
  bool Superseding(const TaskId& task, std::optional<int64_t> oldest) const;
  // Call after tasks were written, and after a version was measured or skipped.
  void ForgetSuperseded(std::optional<int64_t> oldest);

 private:
  bool IsSuperseding(const TaskId& task, std::optional<int64_t> oldest) const REQUIRES(mutex_);

  const std::string run_id_;
  const RunParts& parts_;
  const bool names_;
  const std::unique_ptr<ClientStateStore> store_;
  mutable Mutex mutex_;
  StateBook book_ GUARDED_BY(mutex_);
  // If versions are measured with states: measured versions without durable measures, which a crash would have measured
  // again; and tasks in durable versions whose clients' earlier proposals wait for these measures.
  std::set<int64_t> measured_ GUARDED_BY(mutex_);
  std::vector<TaskId> superseding_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
