// The states of clients, if the sites that serve them share no disk. A task's site fetches the proposal that the task
// starts from, and stores its own before its update, so no accepted update lacks its state.
#include "coordinator/rounds.h"
#include "federated/states/state_blob.h"

namespace rivulet {

StatusOr<std::string> Rounds::ReadState(const Caller& caller, const BlobId& blob) {
  TaskId state_of;
  std::string client_id;
  RIVULET_RETURN_IF_ERROR(intake_.distrusted().Check(caller));
  {
    MutexLock lock(mutex_);
    for (const std::shared_ptr<Attempt>& attempt : {attempt_, evaluation_}) {
      if (!states_.stores() || attempt == nullptr) continue;
      const auto found = attempt->states.find(blob.digest.Hex());
      const Lease* const lease = found == attempt->states.end() ? nullptr : machine_.FindLease(found->second.task);
      if (lease != nullptr && lease->site == caller.name) {
        state_of = found->second.state_of;
        client_id = lease->client_id;
      }
    }
  }
  if (state_of.empty()) return NotFound("site '{}' has no task that begins with such a state", caller.name);
  return states_.Read(client_id, state_of);
}

StatusOr<Intake::Begun> Rounds::BeginState(const Caller& caller, const Submission& submission) {
  RIVULET_RETURN_IF_ERROR(intake_.distrusted().Check(caller));
  MutexLock lock(mutex_);
  TickIfDue();
  if (machine_.phase() == RunMachine::Phase::kStopped) return Unavailable("the run was stopped; it may be resumed");
  const TaskId& task = submission.task;
  const Lease* const lease = machine_.FindLease(task);
  if (lease == nullptr || lease->site != caller.name || lease->resolved() || attempt_ == nullptr ||
      !attempt_->tasks.contains(task)) {
    return NotFound("site '{}' has no task '{}'", caller.name, task);
  }
  if (!states_.stores()) return RefusedWriter("this run's clients keep nothing from task to task");
  if (std::string why = WrongSize("a state", submission.bytes, parts_.most_state_bytes); !why.empty()) {
    return RefusedWriter(std::move(why));
  }
  std::string key = fmt::format("state of {}", task);
  attempt_->arriving.insert(key);
  return intake_.BeginState(key, submission, [this, attempt = attempt_, task, key](std::string state) {
    return TakeState(attempt, task, key, std::move(state));
  });
}

// The state is on disk before the site gets its answer. A state for a round that has closed meanwhile is useless.
StatusOr<SubmitResult> Rounds::TakeState(const std::shared_ptr<Attempt>& attempt, const TaskId& task,
                                         const std::string& key, std::string state) {
  if (!IsWholeState(state)) {
    return SubmitResult{SubmitResult::Kind::kRefused, "these bytes are no state, or a damaged one"};
  }
  const Status proposed = states_.Propose(task, std::move(state));
  if (!proposed.ok()) return Unavailable("{}", Message(proposed));
  {
    MutexLock lock(mutex_);
    attempt->arriving.erase(key);
    if (machine_.phase() == RunMachine::Phase::kTraining && attempt == attempt_) {
      attempt->tasks.at(task).left_state = true;
      return SubmitResult{};
    }
  }
  states_.Forget(task);
  return SubmitResult{SubmitResult::Kind::kRefused, "its round is closed"};
}

bool Rounds::Superseding(const TaskId& task) {
  MutexLock lock(mutex_);
  return states_.Superseding(task, machine_.oldest_to_measure());
}

}  // namespace rivulet
