#include "client/agent/secure_tasks.h"

#include <algorithm>
#include <utility>

#include "client/training/failure.h"
#include "federated/secure/messages.h"

namespace rivulet {
namespace {

// Whether another call may succeed.
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
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<SecureHalf> half, SecureHalf::Create(identity_, plan, task));
  const auto in = std::make_shared<InSteps>(task, std::move(half));
  in->most_members = plan.aggregation(task.kind).updates_per_version;
  {
    MutexLock lock(mutex_);
    tasks_.insert_or_assign(task.id, in);
  }
  if (begun_) begun_();
  return absl::OkStatus();
}

void SecureTasks::SetWords(const TaskId& task, std::string words, TaskReport report) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return;
  InSteps& in = *found->second;
  in.word_bytes = words.size();
  in.words = std::move(words);
  in.report = std::move(report);
  in.trained = true;
}

void SecureTasks::Drop(const TaskId& task) {
  MutexLock lock(mutex_);
  tasks_.erase(task);
}

// A step with a known input has begun here, though its answer may wait for the training.
std::vector<TaskProgress> SecureTasks::InHand() const {
  MutexLock lock(mutex_);
  std::vector<TaskProgress> progress;
  for (const auto& [task, in] : tasks_) {
    const bool begun = in->next == 0 || in->input;
    // A restarted aggregator must learn the answers that its previous process received.
    progress.push_back({.task = task, .held = !begun, .step = begun ? in->next : in->next - 1});
  }
  return progress;
}

// A cancelled task ends at once, even if another thread answers it. Inputs wait for that thread: one may belong to the
// step after the answer under way.
void SecureTasks::Take(const Caller& caller, const PollReply& reply, bool beside) {
  {
    MutexLock lock(mutex_);
    for (const TaskId& cancelled : reply.cancelled) {
      const auto found = tasks_.find(cancelled);
      if (found == tasks_.end()) continue;
      const SharedInSteps in = found->second;
      End(*in, TaskReport::Kind::kGone, "the coordinator needs it no longer");
    }
  }
  MutexLock calls(calls_mutex_);
  {
    MutexLock lock(mutex_);
    for (const Task& task : reply.tasks) {
      const auto found = tasks_.find(task.id);
      const NamedBlob* const input = task.input("step");
      if (found == tasks_.end() || found->second->next != task.step || input == nullptr) continue;
      found->second->input = input->id;
    }
  }
  AnswerAll(caller, beside);
}

void SecureTasks::Answer(const Caller& caller, bool beside) {
  MutexLock calls(calls_mutex_);
  AnswerAll(caller, beside);
}

bool SecureTasks::Ready(const InSteps& in, bool beside) const {
  if (in.next > 0 && !in.input) return false;
  if (in.next != in.half->sum_step()) return true;
  return in.trained && (!beside || in.word_bytes <= kMostWordsBeside);
}

bool SecureTasks::Holds(const InSteps& in) const {
  const auto found = tasks_.find(in.task.id);
  return found != tasks_.end() && found->second.get() == &in;
}

bool SecureTasks::HasLongAnswer() const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(tasks_, [&](const auto& task) REQUIRES(mutex_) {
    return Ready(*task.second, false) && !Ready(*task.second, true);
  });
}

bool SecureTasks::HasUnsent() const {
  MutexLock lock(mutex_);
  return std::ranges::any_of(tasks_, [](const auto& task) { return task.second->unsent_waits; });
}

CallOptions SecureTasks::WithFewTries(CallOptions calls) {
  calls.max_tries = 3;
  return calls;
}

void SecureTasks::AnswerAll(const Caller& caller, bool beside) {
  std::vector<SharedInSteps> ready;
  {
    MutexLock lock(mutex_);
    for (const auto& [task, in] : tasks_) {
      if (Ready(*in, beside)) ready.push_back(in);
    }
  }
  for (const SharedInSteps& in : ready) {
    if (stop_.stopped()) return;
    AnswerOne(caller, *in);
  }
}

void SecureTasks::End(InSteps& in, TaskReport::Kind kind, std::string reason) {
  if (!Holds(in)) return;
  in.report.kind = kind;
  in.report.reason = std::move(reason);
  // Its training would be of no use.
  if (!in.trained) stop_.CancelTask();
  ended_.push_back({in.task, std::move(in.report)});
  tasks_.erase(TaskId(in.task.id));
}

void SecureTasks::AnswerOne(const Caller& caller, InSteps& in) {
  const StatusOr<SubmitResult> result = AnswerStep(caller, in);
  if (!result.ok()) return FailTask(caller, in, result.status());
  MutexLock lock(mutex_);
  if (result->kind == SubmitResult::Kind::kRefused) return End(in, TaskReport::Kind::kRefused, result->reason);
  in.unsent_waits = false;
  in.input.reset();
  if (++in.next < in.half->steps()) return;
  const bool again = result->kind == SubmitResult::Kind::kDuplicate;
  End(in, again ? TaskReport::Kind::kDuplicate : TaskReport::Kind::kAccepted, result->reason);
}

// A half that refuses has detected a lie, or received an unusable input: its client reports to the coordinator that it
// is not willing.
void SecureTasks::FailTask(const Caller& caller, InSteps& in, const Status& status) {
  {
    MutexLock lock(mutex_);
    in.unsent_waits = MayComeLater(status);
    if (in.unsent_waits || !Holds(in)) return;
    if (absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)) rejected_ = status;
    if (!rejected_.ok() || absl::IsNotFound(status) || absl::IsAborted(status)) {
      return End(in, TaskReport::Kind::kGone, std::string(Sentence(Message(status))));
    }
  }
  const Status why = WithReason(status, TaskFailure::Code::kNotWilling, "secure aggregation");
  const Status told = calls_.Fail(caller, FailureOf(in.task.id, why));
  MutexLock lock(mutex_);
  End(in, absl::IsNotFound(told) ? TaskReport::Kind::kGone : TaskReport::Kind::kFailed,
      std::string(Sentence(Message(status))));
}

// An answer is made once, and sent until it has arrived.
StatusOr<SubmitResult> SecureTasks::AnswerStep(const Caller& caller, InSteps& in) {
  int step = 0;
  std::optional<BlobId> from;
  {
    MutexLock lock(mutex_);
    if (!Holds(in)) return Cancelled("task '{}' was dropped", in.task.id);
    step = in.next;
    from = in.input;
    if (step == in.half->sum_step() && !in.words.empty()) in.half->SetWords(std::exchange(in.words, {}));
  }
  if (in.unsent == nullptr) {
    std::string input;
    if (step > 0) {
      const auto most = static_cast<size_t>(in.most_members);
      StatusOr<std::string> fetched =
          calls_.Fetch(caller, *from, static_cast<int64_t>(secure::MostInputBytes(step, most, most)));
      // A restarted aggregator lacks the inputs of its previous process. Polls report that the step has not begun, and
      // the input is sent again, or the task is cancelled.
      if (absl::IsNotFound(fetched.status())) {
        MutexLock lock(mutex_);
        in.input.reset();
        return Unavailable("{}", Message(fetched.status()));
      }
      RIVULET_ASSIGN_OR_RETURN(input, std::move(fetched));
    }
    RIVULET_ASSIGN_OR_RETURN(std::string answer, in.half->Answer(step, input));
    // From here on this client has revealed its shares for one set of clients, whatever happens to them.
    if (step == in.half->steps() - 1 && identity_.answered != nullptr) {
      RIVULET_RETURN_IF_ERROR(identity_.answered->Add(in.task.id));
    }
    in.unsent = std::make_shared<const std::string>(std::move(answer));
  }
  const Submission submission{
      .task = in.task.id, .step = step, .bytes = std::ssize(*in.unsent), .kind = Submission::Kind::kStep};
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
