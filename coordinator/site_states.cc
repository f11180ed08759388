// What clients keep from task to task, where the sites that work for them share no disk: it lies beside the run's
// models, as a simulation's does, so that a run may even go from one to the other. A task's site fetches the proposal
// that it begins with and leaves its own before its update comes, so no accepted update lacks its state.
#include <algorithm>
#include <iterator>

#include "coordinator/intake/chunk_writers.h"
#include "coordinator/run_coordinator.h"
#include "federated/states/state_blob.h"

namespace rivulet {

// Only of a task that this site has, so that nobody reads what another one's clients keep.
StatusOr<std::string> RunCoordinator::ReadState(const Caller& caller, const BlobId& blob) {
  TaskId state_of;
  std::string client_id;
  RIVULET_RETURN_IF_ERROR(distrusted_.Check(caller));
  {
    MutexLock lock(mutex_);
    for (const std::shared_ptr<Attempt>& attempt : {attempt_, evaluation_}) {
      if (kept_ == nullptr || attempt == nullptr) continue;
      const auto found = attempt->states.find(blob.digest.Hex());
      const Lease* const lease = found == attempt->states.end() ? nullptr : machine_.FindLease(found->second.task);
      if (lease != nullptr && lease->site == caller.name) {
        state_of = found->second.state_of;
        client_id = lease->client_id;
      }
    }
  }
  if (state_of.empty()) return NotFound("site '{}' has no task that begins with such a state", caller.name);
  return kept_->Read(run_id_, client_id, state_of);
}

StatusOr<std::unique_ptr<ChunkWriter>> RunCoordinator::BeginState(const Caller& caller, const Submission& submission) {
  if (machine_.phase() == RunMachine::Phase::kStopped) return Unavailable("the run was stopped; it may be resumed");
  const Lease* const lease = machine_.FindLease(submission.task);
  if (lease == nullptr || lease->site != caller.name || lease->resolved() || attempt_ == nullptr ||
      !attempt_->tasks.contains(submission.task)) {
    return NotFound("site '{}' has no task '{}'", caller.name, submission.task);
  }
  if (kept_ == nullptr || submission.bytes < 1 || submission.bytes > parts_.most_state_bytes) {
    return std::make_unique<DecidedWriter>(SubmitResult{
        SubmitResult::Kind::kRefused,
        kept_ == nullptr ? "this run's clients keep nothing from task to task"
                         : fmt::format("a state of {} bytes was announced, and those of this plan have 1 to {}",
                                       submission.bytes, parts_.most_state_bytes)});
  }
  std::string key = fmt::format("state of {}", submission.task);
  RIVULET_ASSIGN_OR_RETURN(Intake::Begun begun, intake_.Begin(key, submission));
  attempt_->arriving.insert(key);
  return std::make_unique<StagedWriter>(std::move(begun), [this, attempt = attempt_, task = submission.task, key](
                                                              Upload& upload, int64_t writer, const Digest& identity) {
    return CloseState(attempt, task, key, upload, writer, identity);
  });
}

// It is on the disk before the site hears that it is here. One whose round has closed meanwhile is of no use.
StatusOr<SubmitResult> RunCoordinator::CloseState(const std::shared_ptr<Attempt>& attempt, const TaskId& task,
                                                  const std::string& key, Upload& upload, int64_t writer,
                                                  const Digest& identity) {
  const auto refused = [](std::string_view reason) {
    return SubmitResult{SubmitResult::Kind::kRefused, std::string(reason)};
  };
  const StatusOr<Upload::Whole> whole = upload.Complete(writer, identity);
  if (absl::IsAborted(whole.status())) return refused(Message(whole.status()));
  RIVULET_RETURN_IF_ERROR(whole.status());
  std::string state(reinterpret_cast<const char*>(whole->bytes.data()), whole->bytes.size());
  upload.Release();
  intake_.Forget(key);
  if (!IsWholeState(state)) return refused("these bytes are no state, or a damaged one");
  const std::optional<TaskName> name = TaskNameOf(task, run_id_);
  RIVULET_CHECK(name.has_value(), "task '{}' of run {}", task, run_id_);
  const Status proposed = kept_->Propose(run_id_, name->client_id, task, std::move(state));
  if (!proposed.ok()) return Unavailable("{}", Message(proposed));
  {
    MutexLock lock(mutex_);
    attempt->arriving.erase(key);
    if (machine_.phase() == RunMachine::Phase::kTraining && attempt == attempt_) {
      attempt->tasks.at(task).left_state = true;
      return SubmitResult{};
    }
  }
  kept_->Forget(run_id_, name->client_id, task);
  return refused("its round is closed");
}

// Whether the version that `task` is in came after one that is measured with what clients had kept then, and whose
// figures are not durable yet: what this client proposed before it stays.
bool RunCoordinator::IsSuperseding(const TaskId& task) const {
  if (!parts_.measures_state) return false;
  std::optional<int64_t> oldest = machine_.oldest_to_measure();
  if (!measured_.empty()) oldest = std::min(oldest.value_or(*measured_.begin()), *measured_.begin());
  const std::optional<TaskName> name = TaskNameOf(task, run_id_);
  return oldest && name && name->round > *oldest;
}

bool RunCoordinator::Superseding(const TaskId& task) {
  MutexLock lock(mutex_);
  return IsSuperseding(task);
}

// After tasks were written, and after a version was measured, or left out.
void RunCoordinator::ForgetSuperseded() {
  std::vector<TaskId> free;
  {
    MutexLock lock(mutex_);
    if (parts_.measures_state) states_.AskedFrom(machine_.oldest_to_measure());
    const auto still = [this](const TaskId& task) REQUIRES(mutex_) { return IsSuperseding(task); };
    const auto ready = std::stable_partition(superseding_.begin(), superseding_.end(), still);
    free.assign(std::make_move_iterator(ready), std::make_move_iterator(superseding_.end()));
    superseding_.erase(ready, superseding_.end());
  }
  for (const TaskId& task : free) kept_->Durable(run_id_, TaskNameOf(task, run_id_)->client_id, task);
}

// Of an attempt that is closed what is in no version goes.
void RunCoordinator::ForgetUnfolded(const PendingAttempt& attempt) {
  if (kept_ == nullptr) return;
  for (const auto& [lease, facts] : attempt.attempt.tasks) {
    const bool folded = attempt.end.status == "committed" && lease.state == Lease::State::kFolded;
    if (facts.left_state && !folded) kept_->Forget(run_id_, lease.client_id, lease.task);
  }
}

}  // namespace rivulet
