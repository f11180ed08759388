#include "client/agent/secure_tasks.h"

#include <algorithm>
#include <utility>

#include "client/training/failure.h"
#include "federated/secure/messages.h"

namespace rivulet {
namespace {

// What another call may bring.
bool MayComeLater(const Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

std::vector<DatasetOffer> WithoutNumbers(std::vector<DatasetOffer> offers) {
  for (DatasetOffer& offer : offers) offer.examples = std::min<int64_t>(offer.examples, 1);
  return offers;
}

Status SecureTasks::Check(const Plan& plan, const Task& task) const {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SecureProtocolOf(plan));
  if (!protocol->hides) {
    return FailedPrecondition("the plan sums by '{}', which hides nothing and is for simulations", protocol->name);
  }
  RIVULET_RETURN_IF_ERROR(secure::CheckPolicy(SecureSettingsOf(plan, task.kind), identity_.policy));
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

Status SecureTasks::Begin(const Plan& plan, const Task& task) {
  if (identity_.protect) RIVULET_RETURN_IF_ERROR(identity_.protect());
  InSteps in{.task = task, .half = nullptr, .input = std::nullopt};
  RIVULET_ASSIGN_OR_RETURN(in.half, SecureHalf::Create(identity_, plan, task));
  in.most_members = plan.aggregation(task.kind).updates_per_version;
  {
    MutexLock lock(mutex_);
    tasks_.insert_or_assign(task.id, std::move(in));
  }
  if (begun_) begun_();
  return absl::OkStatus();
}

void SecureTasks::SetWords(const TaskId& task, std::vector<std::byte> words, TaskReport report) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return;
  found->second.half->SetWords(std::move(words));
  found->second.report = std::move(report);
  found->second.trained = true;
}

void SecureTasks::Drop(const TaskId& task) {
  MutexLock lock(mutex_);
  tasks_.erase(task);
}

// A step whose input is known has begun here, though its answer may wait for the training.
std::vector<TaskProgress> SecureTasks::InHand() const {
  MutexLock lock(mutex_);
  std::vector<TaskProgress> progress;
  for (const auto& [task, in] : tasks_) {
    const bool begun = in.next == 0 || in.input;
    // An aggregator that was started again must know what the one before it was sent.
    progress.push_back({.task = task, .held = !begun, .step = begun ? in.next : in.next - 1});
  }
  return progress;
}

void SecureTasks::Take(const Caller& caller, const PollReply& reply, bool beside) {
  MutexLock lock(mutex_);
  for (const TaskId& cancelled : reply.cancelled) {
    const auto found = tasks_.find(cancelled);
    if (found == tasks_.end()) continue;
    End(found->second, TaskReport::Kind::kGone, "the coordinator needs it no longer");
    tasks_.erase(found);
  }
  for (const Task& task : reply.tasks) {
    const auto found = tasks_.find(task.id);
    const NamedBlob* const input = task.input("step");
    if (found == tasks_.end() || found->second.next != task.step || input == nullptr) continue;
    found->second.input = input->id;
  }
  AnswerAll(caller, beside);
}

void SecureTasks::Answer(const Caller& caller, bool beside) {
  MutexLock lock(mutex_);
  AnswerAll(caller, beside);
}

bool SecureTasks::Ready(const InSteps& in, bool beside) const {
  if (in.next > 0 && !in.input) return false;
  if (in.next != in.half->sum_step()) return true;
  return in.trained && (!beside || in.half->word_bytes() <= kMostWordsBeside);
}

bool SecureTasks::HasLongAnswer() const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(tasks_,
                             [&](const auto& task) { return Ready(task.second, false) && !Ready(task.second, true); });
}

void SecureTasks::AnswerAll(const Caller& caller, bool beside) {
  for (auto in = tasks_.begin(); in != tasks_.end();) {
    const bool stays = !Ready(in->second, beside) || stop_.stopped() || AnswerOne(caller, in->second);
    in = stays ? std::next(in) : tasks_.erase(in);
  }
}

void SecureTasks::End(InSteps& in, TaskReport::Kind kind, std::string reason) {
  in.report.kind = kind;
  in.report.reason = std::move(reason);
  // Its training would be for nothing.
  if (!in.trained) stop_.CancelTask();
  ended_.push_back({std::move(in.task), std::move(in.report)});
}

// A half that refuses has caught a lie, or has been sent what it cannot use: its client tells the coordinator that it
// is not willing.
bool SecureTasks::AnswerOne(const Caller& caller, InSteps& in) {
  const StatusOr<SubmitResult> result = AnswerStep(caller, in);
  if (result.ok()) {
    if (result->kind == SubmitResult::Kind::kRefused) {
      End(in, TaskReport::Kind::kRefused, result->reason);
      return false;
    }
    in.input.reset();
    if (++in.next < in.half->steps()) return true;
    const bool again = result->kind == SubmitResult::Kind::kDuplicate;
    End(in, again ? TaskReport::Kind::kDuplicate : TaskReport::Kind::kAccepted, result->reason);
    return false;
  }
  const Status& status = result.status();
  if (MayComeLater(status)) return true;
  if (absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)) rejected_ = status;
  if (!rejected_.ok() || absl::IsNotFound(status) || absl::IsAborted(status)) {
    End(in, TaskReport::Kind::kGone, std::string(Sentence(Message(status))));
    return false;
  }
  const Status why = WithReason(status, TaskFailure::Code::kNotWilling, "secure aggregation");
  const Status told = calls_.Fail(caller, FailureOf(in.task.id, why));
  End(in, absl::IsNotFound(told) ? TaskReport::Kind::kGone : TaskReport::Kind::kFailed,
      std::string(Sentence(Message(status))));
  return false;
}

// An answer that was made is not made again: it is sent until it has arrived.
StatusOr<SubmitResult> SecureTasks::AnswerStep(const Caller& caller, InSteps& in) {
  if (in.unsent == nullptr) {
    std::string input;
    if (in.next > 0) {
      const auto most = static_cast<size_t>(in.most_members);
      RIVULET_ASSIGN_OR_RETURN(
          input, calls_.Fetch(caller, *in.input, static_cast<int64_t>(secure::MostInputBytes(in.next, most, most))));
    }
    RIVULET_ASSIGN_OR_RETURN(std::string answer, in.half->Answer(in.next, input));
    // From here on this client has told what it tells of one set of clients, whatever becomes of it.
    if (in.next == in.half->steps() - 1 && identity_.answered != nullptr) {
      RIVULET_RETURN_IF_ERROR(identity_.answered->Add(in.task.id));
    }
    in.unsent = std::make_shared<const std::string>(std::move(answer));
  }
  const Submission submission{
      .task = in.task.id, .step = in.next, .bytes = std::ssize(*in.unsent), .kind = Submission::Kind::kStep};
  StatusOr<SubmitResult> result = calls_.Submit(caller, submission, in.unsent);
  if (result.ok()) in.unsent.reset();
  return result;
}

std::vector<SecureTasks::Ended> SecureTasks::TakeEnded() {
  MutexLock lock(mutex_);
  return std::exchange(ended_, {});
}

std::optional<TaskReport> SecureTasks::TakeEnded(const TaskId& task) {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(ended_, [&](const Ended& ended) { return ended.task.id == task; });
  if (found == ended_.end()) return std::nullopt;
  TaskReport report = std::move(found->report);
  ended_.erase(found);
  return report;
}

Status SecureTasks::rejected() const {
  MutexLock lock(mutex_);
  return rejected_;
}

}  // namespace rivulet
