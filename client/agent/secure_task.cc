#include "client/agent/secure_task.h"

#include <algorithm>
#include <utility>

#include "federated/secure/messages.h"

namespace rivulet {
namespace {

// Between two polls for the next step, of a coordinator that does not hold them.
constexpr int64_t kMostWaitMs = 1000;

}  // namespace

std::vector<DatasetOffer> WithoutNumbers(std::vector<DatasetOffer> offers) {
  for (DatasetOffer& offer : offers) offer.examples = std::min<int64_t>(offer.examples, 1);
  return offers;
}

Status SecureTask::Check(const Plan& plan, const Task& task) const {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SecureProtocolOf(plan));
  if (!protocol->hides) {
    return FailedPrecondition("the plan sums by '{}', which hides nothing and is for simulations", protocol->name);
  }
  RIVULET_RETURN_IF_ERROR(secure::CheckPolicy(SecureSettingsOf(plan), identity_.policy));
  if (task.step > 0) {
    return FailedPrecondition(
        "task '{}' is at step {} of secure aggregation, and another process of this client had the secrets of its "
        "first steps",
        task.id, task.step);
  }
  if (identity_.answered != nullptr && identity_.answered->Contains(task.id)) {
    return FailedPrecondition("task '{}' was answered before, and a secure task is answered once", task.id);
  }
  return absl::OkStatus();
}

StatusOr<SubmitResult> SecureTask::Run(PollRequest poll, const Plan& plan, const Task& task,
                                       std::vector<std::byte> words) {
  if (identity_.protect) RIVULET_RETURN_IF_ERROR(identity_.protect());
  RIVULET_ASSIGN_OR_RETURN(const auto half, SecureHalf::Create(identity_, plan, task, std::move(words)));
  SubmitResult result;
  for (int step = 0; step < half->steps(); ++step) {
    std::string input;
    if (step > 0) {
      RIVULET_ASSIGN_OR_RETURN(input, AwaitInput(poll, plan, task.id, step));
    }
    RIVULET_ASSIGN_OR_RETURN(std::string answer, half->Answer(step, input));
    // From here on this client has told what it tells of one set of clients, whatever becomes of it.
    if (step == half->steps() - 1 && identity_.answered != nullptr) {
      RIVULET_RETURN_IF_ERROR(identity_.answered->Add(task.id));
    }
    const Submission submission{
        .task = task.id, .step = step, .bytes = std::ssize(answer), .kind = Submission::Kind::kStep};
    RIVULET_ASSIGN_OR_RETURN(
        result, calls_.Submit(poll.caller, submission, std::make_shared<const std::string>(std::move(answer))));
    if (result.kind == SubmitResult::Kind::kRefused) return result;
  }
  return result;
}

StatusOr<std::string> SecureTask::AwaitInput(PollRequest& poll, const Plan& plan, const TaskId& task, int step) {
  poll.working_on = {{.task = task, .step = step - 1}};
  poll.want = 1;
  poll.told = true;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const PollReply reply, calls_.Poll(poll));
    if (reply.over) {
      over_ = reply.over;
      return Aborted("the run is over: {}", reply.over->sentence);
    }
    if (std::ranges::find(reply.cancelled, task) != reply.cancelled.end()) {
      return Aborted("the coordinator needs task '{}' no longer", task);
    }
    for (const Task& again : reply.tasks) {
      if (again.id != task || again.step != step) continue;
      const NamedBlob* const input = again.input("step");
      if (input == nullptr) continue;
      const auto most = static_cast<size_t>(plan.aggregation().updates_per_version);
      return calls_.Fetch(poll.caller, input->id, static_cast<int64_t>(secure::MostInputBytes(step, most, most)));
    }
    if (!stop_.Sleep(std::clamp<int64_t>(reply.wait_ms, 1, kMostWaitMs))) return Cancelled("stopped");
  }
}

}  // namespace rivulet
