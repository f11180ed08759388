// A client's side of secure aggregation: a trained update becomes words, and the steps of the protocol carry their sum
// to the coordinator. Secrets are in memory until the last answer; another process cannot continue the task.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "certificates/identity.h"
#include "client/agent/answered_tasks.h"
#include "client/calls/coordinator_calls.h"
#include "client/calls/stop_signal.h"
#include "client/training/trainer.h"
#include "federated/plan/plan.h"
#include "federated/secure/protocol.h"

namespace rivulet {

// Of a client that takes part in secure sums.
struct SecureIdentity {
  std::function<std::shared_ptr<const NodeIdentity>()> identity;  // as WatchedIdentity has it
  secure::SecurePolicy policy;                                    // what every plan must be at least
  // Whether polls state one example in place of their number: of a site that takes part in secure sums alone.
  bool hides_examples = false;
  std::shared_ptr<AnsweredTasks> answered;
  std::function<int64_t()> now;  // seconds since 1970 UTC
  // Before the first secret of a task, such as ForbidCoreDumps; null: nothing is done.
  std::function<Status()> protect = nullptr;
};

// The words of an update: its values, weights and scalars, rounded as the coordinator's own sum rounds them.
// INVALID_ARGUMENT as Aggregation::Take.
StatusOr<std::vector<std::byte>> SecureWords(const AggregationSpec& spec, const Task& task, const LocalResult& trained);

class SecureTask {
 public:
  // All must outlive this.
  SecureTask(CoordinatorCalls& calls, StopSignal& stop, const SecureIdentity& identity)
      : calls_(calls), stop_(stop), identity_(identity) {}

  // OK: the client may train for this plan. FAILED_PRECONDITION: the plan is weaker than the site's policy, the task
  // was answered before, or is at a later step, which another process began.
  Status Check(const Plan& plan, const Task& task) const;
  // All steps of `task`, with `words` at the sum's. `poll`: this client's own poll, without tasks. Returns the answer
  // to the last step, or a refusal. Errors: FAILED_PRECONDITION and INVALID_ARGUMENT name the lie of a coordinator;
  // ABORTED: the coordinator needs the task no longer, or the run is over. Otherwise those of the calls.
  StatusOr<SubmitResult> Run(PollRequest poll, const Plan& plan, const Task& task, std::vector<std::byte> words);

  // The end of the run, if it was told while this waited: a coordinator tells it once.
  const std::optional<PollReply::Over>& over() const { return over_; }

 private:
  StatusOr<std::string> AwaitInput(PollRequest& poll, const Plan& plan, const TaskId& task, int step);

  CoordinatorCalls& calls_;
  StopSignal& stop_;
  const SecureIdentity& identity_;
  std::optional<PollReply::Over> over_;
};

}  // namespace rivulet
