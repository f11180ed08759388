// The states of clients between tasks: the task whose proposal is each client's state, and, if the clients' sites share
// no disk, the proposals themselves. These are stored beside the run's models, as a simulation's are, so that a run may
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

// Thread-safe; its lock is not held over I/O. `oldest` is always the oldest version that is, or will be, measured.
class ClientStates {
 public:
  // `parts` must outlive it. `names`: tasks name their states whatever the plan says. `store`: null where clients keep
  // nothing here. `folded`: of the run so far, later ones later.
  ClientStates(std::string run_id, const RunParts& parts, bool names, std::unique_ptr<ClientStateStore> store,
               const std::vector<TaskId>& folded, std::optional<int64_t> oldest);
  bool stores() const { return store_ != nullptr; }

  // The task whose proposal such a task begins with; "": none. A version is measured with what clients had kept when it
  // was made, whatever they have trained since.
  TaskId Of(TaskKind kind, const std::string& client_id, int64_t base_version) const;
  bool HadOwn(const std::string& client_id, int64_t version) const;
  // The state that this task began with is lost.
  void Lost(const TaskName& task);

  // Proposals, on disk; the caller says whose task it is.
  StatusOr<std::string> Read(const std::string& client_id, const TaskId& state_of) const;
  Status Propose(const TaskId& task, std::string state) const;
  void Forget(const TaskId& task) const;

  // Of an attempt that is closed: folded proposals become states.
  void Closed(const PendingAttempt& attempt);
  // And what is in no version goes from the disk.
  void ForgetUnfolded(const PendingAttempt& attempt) const;
  void Written(const PendingAttempt& attempt);  // its rows
  // Whether the version that `task` is in came after one that is measured with what clients had kept then, and whose
  // figures are not durable yet: what this client proposed before it stays.
  bool Superseding(const TaskId& task, std::optional<int64_t> oldest) const;
  // After tasks were written, and after a version was measured, or left out.
  void ForgetSuperseded(std::optional<int64_t> oldest);

 private:
  bool IsSuperseding(const TaskId& task, std::optional<int64_t> oldest) const REQUIRES(mutex_);

  const std::string run_id_;
  const RunParts& parts_;
  const bool names_;
  const std::unique_ptr<ClientStateStore> store_;
  mutable Mutex mutex_;
  StateBook book_ GUARDED_BY(mutex_);
  // Where versions are measured with states: those that were and whose figures are not durable, so that a crash has
  // them measured again; and tasks in durable versions whose clients' earlier proposals wait for it.
  std::set<int64_t> measured_ GUARDED_BY(mutex_);
  std::vector<TaskId> superseding_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
