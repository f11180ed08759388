#include "coordinator/client_states.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rivulet {

ClientStates::ClientStates(std::string run_id, const RunParts& parts, bool names,
                           std::unique_ptr<ClientStateStore> store, const std::vector<TaskId>& folded,
                           std::optional<int64_t> oldest)
    : run_id_(std::move(run_id)), parts_(parts), names_(names), store_(std::move(store)), book_(run_id_) {
  if (parts_.measures_state) book_.AskedFrom(oldest);
  for (const TaskId& task : folded) book_.Folded(task);
}

TaskId ClientStates::Of(TaskKind kind, const std::string& client_id, int64_t base_version) const {
  MutexLock lock(mutex_);
  if (parts_.measures_state && kind == TaskKind::kEvaluate) return book_.AsOf(client_id, base_version);
  if (names_ || (parts_.keeps_state && kind == TaskKind::kTrain)) return book_.Of(client_id);
  return "";
}

bool ClientStates::HadOwn(const std::string& client_id, int64_t version) const {
  MutexLock lock(mutex_);
  return !book_.AsOf(client_id, version).empty();
}

// A loss of the state at an earlier version does not lose the client's newer state.
void ClientStates::Lost(const TaskName& task) {
  MutexLock lock(mutex_);
  const bool newest =
      task.kind == TaskKind::kTrain || book_.AsOf(task.client_id, task.round) == book_.Of(task.client_id);
  if (newest) book_.Lost(task.client_id);
}

StatusOr<std::string> ClientStates::Read(const std::string& client_id, const TaskId& state_of) const {
  return store_->Read(run_id_, client_id, state_of);
}

Status ClientStates::Propose(const TaskId& task, std::string state) const {
  return store_->Propose(run_id_, TaskNameOf(task, run_id_)->client_id, task, std::move(state));
}

void ClientStates::Forget(const TaskId& task) const {
  store_->Forget(run_id_, TaskNameOf(task, run_id_)->client_id, task);
}

void ClientStates::Closed(const PendingAttempt& attempt) {
  const bool trains = attempt.attempt.kind == TaskKind::kTrain;
  MutexLock lock(mutex_);
  if (!trains && parts_.measures_state) measured_.insert(attempt.attempt.round);
  if (!(parts_.keeps_state || names_) || !trains || attempt.end.status != "committed") return;
  for (const auto& [lease, facts] : attempt.attempt.tasks) {
    if (lease.state == Lease::State::kFolded) book_.Folded(lease.task);
  }
}

void ClientStates::ForgetUnfolded(const PendingAttempt& attempt) const {
  if (store_ == nullptr) return;
  for (const auto& [lease, facts] : attempt.attempt.tasks) {
    const bool folded = attempt.end.status == "committed" && lease.state == Lease::State::kFolded;
    if (facts.left_state && !folded) store_->Forget(run_id_, lease.client_id, lease.task);
  }
}

void ClientStates::Written(const PendingAttempt& attempt) {
  MutexLock lock(mutex_);
  if (attempt.attempt.kind == TaskKind::kEvaluate) measured_.erase(attempt.attempt.round);
  if (attempt.end.status != "committed" || store_ == nullptr) return;
  for (const auto& [lease, facts] : attempt.attempt.tasks) {
    if (lease.state == Lease::State::kFolded && facts.left_state) superseding_.push_back(lease.task);
  }
}

bool ClientStates::IsSuperseding(const TaskId& task, std::optional<int64_t> oldest) const {
  if (!parts_.measures_state) return false;
  if (!measured_.empty()) oldest = std::min(oldest.value_or(*measured_.begin()), *measured_.begin());
  const std::optional<TaskName> name = TaskNameOf(task, run_id_);
  return oldest && name && name->round > *oldest;
}

bool ClientStates::Superseding(const TaskId& task, std::optional<int64_t> oldest) const {
  MutexLock lock(mutex_);
  return IsSuperseding(task, oldest);
}

void ClientStates::ForgetSuperseded(std::optional<int64_t> oldest) {
  std::vector<TaskId> free;
  {
    MutexLock lock(mutex_);
    if (parts_.measures_state) book_.AskedFrom(oldest);
    const auto still = [&](const TaskId& task) REQUIRES(mutex_) { return IsSuperseding(task, oldest); };
    const auto ready = std::stable_partition(superseding_.begin(), superseding_.end(), still);
    free.assign(std::make_move_iterator(ready), std::make_move_iterator(superseding_.end()));
    superseding_.erase(ready, superseding_.end());
  }
  for (const TaskId& task : free) store_->Durable(run_id_, TaskNameOf(task, run_id_)->client_id, task);
}

}  // namespace rivulet
