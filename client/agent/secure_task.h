// A deployed client's side of secure aggregation: its half (client/secure/secure_half.h) and the calls that carry the
// steps to the coordinator. Secrets are in memory until the last answer; another process cannot continue the task.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/answered_tasks.h"
#include "client/calls/coordinator_calls.h"
#include "client/calls/stop_signal.h"
#include "client/secure/secure_half.h"
#include "federated/plan/plan.h"

namespace rivulet {

// Of a client that takes part in secure sums.
struct SecureIdentity : SecureMember {
  // Whether polls never state how many examples there are: of a site that takes part in secure sums alone. Another
  // states it once it has read a plan without them, or where a coordinator refuses a client of one example.
  bool hides_examples = false;
  std::shared_ptr<AnsweredTasks> answered;
  // Before the first secret of a task, such as ForbidCoreDumps; null: nothing is done.
  std::function<Status()> protect = nullptr;
};

// As polls state data sets without their numbers of examples: one each.
std::vector<DatasetOffer> WithoutNumbers(std::vector<DatasetOffer> offers);

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
