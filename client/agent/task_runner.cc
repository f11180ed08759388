#include "client/agent/task_runner.h"

#include <utility>

#include "client/agent/update_message_writer.h"
#include "client/training/failure.h"
#include "engine/profile/tracer.h"
#include "federated/plan/download_bounds.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {
namespace {

// A task with a missing blob is tried so often before it is reported as failed, each time after a pause.
constexpr int kMostTimesLost = 3;
constexpr int64_t kLostPauseMs = 100;

TaskReport::Kind KindOf(const SubmitResult& result) {
  switch (result.kind) {
    case SubmitResult::Kind::kAccepted:
      return TaskReport::Kind::kAccepted;
    case SubmitResult::Kind::kDuplicate:
      return TaskReport::Kind::kDuplicate;
    case SubmitResult::Kind::kRefused:
      break;
  }
  return TaskReport::Kind::kRefused;
}

bool TurnedAway(const Status& status) { return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status); }

}  // namespace

TaskRunner::TaskRunner(CoordinatorApi& api, ArtifactCache& artifacts, StopSignal& stop, TaskRunnerOptions options)
    : api_(api),
      artifacts_(artifacts),
      stop_(stop),
      tracer_(options.instruments.tracer),
      states_(options.states),
      persisted_(options.persisted),
      checkpoint_(options.checkpoint),
      secure_(options.secure),
      ledger_(options.ledger),
      receipts_(options.receipts),
      calls_(api, stop, std::move(options.calls)),
      trainer_(artifacts, stop, options.instruments, options.states, options.memory_budget, std::move(options.trainers),
               options.checkpoint, std::move(options.available_memory)) {
  trainer_.ReleaseStepsAlways();
  if (options.examples == nullptr) return;
  trainer_.ProtectExamples(
      [accounts = options.examples](const Task& task, std::string_view client_id, const Plan& plan,
                                    const ExampleData& data) { return accounts->Begin(task, client_id, plan, data); });
}

// Once and without a retry: a coordinator whose run is over may be gone, and nothing waits for a receipt.
void TaskRunner::CollectReceipt(const Caller& caller, const TaskId& task) {
  if (receipts_ == nullptr) return;
  receipts_->Collect(task, [&](const BlobId& id, int64_t most) -> StatusOr<std::string> {
    RIVULET_ASSIGN_OR_RETURN(const auto reader, api_.Fetch(caller, id, 0));
    std::string bytes;
    for (;;) {
      RIVULET_ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, reader->Next());
      if (chunk.empty()) return bytes;
      if (std::ssize(bytes) + std::ssize(chunk) > most) return InvalidArgument("a receipt of more than {} bytes", most);
      bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
  });
}

void TaskRunner::CollectReceipts(const Caller& caller) {
  if (receipts_ == nullptr) return;
  for (const TaskId& task : receipts_->sent()) CollectReceipt(caller, task);
}

StatusOr<TaskReport> TaskRunner::Run(const Caller& caller, const Task& task, std::span<const BoundData> data) {
  StatusOr<TaskReport> report = TraceTask(tracer_, caller.name, task, [&] { return Perform(caller, task, data); });
  // Without a report this client is being stopped, and may resume the task later.
  if (report.ok() && checkpoint_ != nullptr && task.kind == TaskKind::kTrain) checkpoint_->Remove();
  return report;
}

// The site's policy may have changed since the training, so the plan is checked as before a training. A client with
// state must also still have the state that this task proposed.
std::optional<FinishedWork> TaskRunner::FindPersisted(const Caller& caller, const Task& task,
                                                      const TaskTrainer::Sources& sources) {
  if (persisted_ == nullptr || task.kind != TaskKind::kTrain) return std::nullopt;
  std::optional<FinishedWork> found = persisted_->Find(task);
  if (!found) return std::nullopt;
  const auto plan = artifacts_.Plan(task.plan, sources.plan, sources.base);
  if (!plan.ok()) return std::nullopt;
  if ((*plan)->plan->keeps_state() && (states_ == nullptr || !states_->Read(task.run_id, caller.name, task.id).ok())) {
    return std::nullopt;
  }
  return found;
}

// Two answers with different noise reveal twice as much, even for one task. The first may have arrived before the
// client was stopped, so a second draw is a second charge.
Status TaskRunner::AskLedger(Ledger what, const Task& task, const TaskTrainer::Sources& sources, bool sent_again) {
  if (ledger_ == nullptr || task.kind != TaskKind::kTrain) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const auto artifacts, artifacts_.Plan(task.plan, sources.plan, sources.base));
  const Plan& plan = *artifacts->plan;
  const auto again =
      !artifacts->repeatable && !sent_again ? PrivacyLedger::Again::kOtherNoise : PrivacyLedger::Again::kSameBits;
  return what == Ledger::kCheck ? ledger_->Check(task.id, plan, again) : ledger_->Charge(task.id, plan, again);
}

// It is on disk before its first byte is sent: from then on no crash of either side costs its training.
StatusOr<FinishedWork> TaskRunner::TrainAndKeep(const Caller& caller, const Task& task, std::span<const BoundData> data,
                                                const TaskTrainer::Sources& sources) {
  RIVULET_RETURN_IF_ERROR(AskLedger(Ledger::kCheck, task, sources));
  RIVULET_ASSIGN_OR_RETURN(const LocalResult trained, trainer_.Train(task, caller.name, data, sources));
  FinishedWork work;
  work.result() = trained;
  work.update = WriteUpdate(trained);
  if (persisted_ != nullptr && task.kind == TaskKind::kTrain) persisted_->Keep(task, work, trainer_.repeatable());
  return work;
}

// Only masked words of the update leave the client, so neither it nor its measures are sent or stored. Its first steps
// run beside the training, and may end it.
StatusOr<TaskReport> TaskRunner::TrainForSum(const Caller& caller, const Plan& plan, const Task& task,
                                             std::span<const BoundData> data, const TaskTrainer::Sources& sources) {
  if (secure_ == nullptr) {
    return WithReason(FailedPrecondition("the plan has secure aggregation, and this client has no certificate to prove "
                                         "its keys by; start it with its folder of certificates (--tls)"),
                      TaskFailure::Code::kNotWilling, "secure aggregation");
  }
  const auto not_willing = [](const Status& why) {
    return WithReason(why, TaskFailure::Code::kNotWilling, "secure aggregation");
  };
  RIVULET_RETURN_IF_ERROR(not_willing(secure_->Check(plan, task)));
  // Before any part of it is sent: a sum's information cannot be taken back when a later step fails.
  RIVULET_RETURN_IF_ERROR(AskLedger(Ledger::kCharge, task, sources));
  RIVULET_RETURN_IF_ERROR(not_willing(secure_->Begin(plan, task)));
  TaskReport report;
  const Status done = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const LocalResult trained, trainer_.Train(task, caller.name, data, sources));
    report.result() = trained;
    RIVULET_ASSIGN_OR_RETURN(std::string words, SecureWords(plan.aggregation(task.kind), task, trained));
    report.bytes_up = std::ssize(words);
    secure_->SetWords(task.id, std::move(words), report);
    return absl::OkStatus();
  }();
  if (std::optional<TaskReport> ended = secure_->TakeEnded(task.id)) return *std::move(ended);
  report.kind = TaskReport::Kind::kInSteps;
  if (done.ok()) return report;
  secure_->Drop(task.id);
  return done;
}

// A task always ends in one of two ways: with an update, or with a reason sent to the coordinator, which would
// otherwise wait for this client until its deadline. The error's message is for the caller on this side. Only a client
// that is being stopped sends nothing, because it may resume the task.
StatusOr<TaskReport> TaskRunner::Perform(const Caller& caller, const Task& task, std::span<const BoundData> data) {
  TaskReport report;
  TaskTrainer::Sources sources;
  bool lost = false;
  // Among a download's errors, only a size beyond this site's budget is FAILED_PRECONDITION.
  const auto noted = [&](StatusOr<std::string> blob) -> StatusOr<std::string> {
    lost |= absl::IsNotFound(blob.status());
    if (!absl::IsFailedPrecondition(blob.status())) return blob;
    return WithReason(blob.status(), TaskFailure::Code::kNotWilling, "memory");
  };
  sources.plan = [&] { return noted(calls_.FetchPlan(caller, task.plan)); };
  sources.base = {[&](const Digest& base, int64_t most, int64_t from, const auto& sink) {
                    return calls_.FetchTo(caller, {BlobId::Form::kBase, base}, most, from, sink);
                  },
                  [&](int64_t ms) { return stop_.Sleep(ms); }};
  sources.blob = [&](const BlobId& id, int64_t most) { return noted(calls_.Fetch(caller, id, most)); };
  sources.model = [&](const BlobId& id, const Plan& plan) {
    return artifacts_.ModelVersion(id.digest, plan, [&] {
      trainer_.ReleaseResults();
      return sources.blob(id, MaxModelBytes(*plan.layout()));
    });
  };
  const auto plan = artifacts_.Plan(task.plan, sources.plan, sources.base);
  const bool secure = plan.ok() && (*plan)->plan->aggregation().secure.on();
  if (plan.ok()) sums_securely_ = secure;
  StatusOr<FinishedWork> work = Cancelled("not begun");
  Status status;
  Status shown;  // that the coordinator shows the run that it has shown before
  if (receipts_ != nullptr) {
    shown =
        receipts_->Admit(task.run_id, [&](const BlobId& id, int64_t most) { return calls_.Fetch(caller, id, most); });
    if (absl::IsDataLoss(shown)) shown = WithReason(shown, TaskFailure::Code::kNotWilling, "records");
  }
  // An outcome is told with the next poll, when its version may not be durable yet.
  if (shown.ok()) CollectReceipts(caller);
  if (!shown.ok()) {
    work = shown;
  } else if (secure) {
    StatusOr<TaskReport> begun = TrainForSum(caller, *(*plan)->plan, task, data, sources);
    if (begun.ok()) return begun;
    work = begun.status();
  } else if (std::optional<FinishedWork> found = FindPersisted(caller, task, sources); found) {
    report.resent = true;
    work = *std::move(found);
  } else {
    work = TrainAndKeep(caller, task, data, sources);
  }
  if (work.ok()) {
    if (const Status charged = AskLedger(Ledger::kCharge, task, sources, report.resent); !charged.ok()) work = charged;
  }
  status = work.status();
  if (work.ok()) {
    report.result() = *work;
    report.bytes_up = static_cast<int64_t>(work->update.size());
    TraceSpan uploading(tracer_, "phase", "upload");
    uploading.Arg("bytes", report.bytes_up);
    if (receipts_ != nullptr && task.kind == TaskKind::kTrain) {
      BlockCrcs crcs;
      crcs.Append(std::as_bytes(std::span(work->update)));
      receipts_->Sending(task.id, crcs.Identity(task.step));
    }
    const Submission submission{task.id, task.step, report.bytes_up, work->result()};
    const StatusOr<SubmitResult> submitted =
        calls_.Submit(caller, submission, std::make_shared<const std::string>(std::move(work->update)));
    uploading.End();
    status = submitted.status();
    if (submitted.ok()) {
      report.kind = KindOf(*submitted);
      report.reason = submitted->reason;
      if (persisted_ != nullptr && report.kind == TaskReport::Kind::kRefused) persisted_->Drop(task.id, report.reason);
      return report;
    }
  }
  if (stop_.stopped()) return Cancelled("stopped");
  if (stop_.task_cancelled()) {
    report.kind = TaskReport::Kind::kGone;
    report.reason = "the coordinator needs it no longer";
    return report;
  }
  if (TurnedAway(status)) return status;
  report.reason = std::string(Sentence(Message(status)));  // a row and a log line have no room for multi-line text
  // The task was lost while this client trained or sent. A failure report would fail the task of the same name, which a
  // restarted coordinator or aggregator may have offered again.
  if (work.ok() && (absl::IsNotFound(status) || absl::IsAborted(status))) {
    report.kind = TaskReport::Kind::kGone;
    return report;
  }
  // A killed coordinator may have lost the version that this task starts from. It makes that again, and offers the task
  // under the same name. A failure report would give the task to another client, and other clients would make the
  // version. So the coordinator is first asked whether it still knows the task.
  times_lost_ = !lost ? 0 : task.id == lost_ ? times_lost_ + 1 : 1;
  lost_ = task.id;
  if (lost && times_lost_ < kMostTimesLost) {
    if (!stop_.Sleep(kLostPauseMs) && stop_.stopped()) return Cancelled("stopped");
    report.kind = TaskReport::Kind::kGone;
    return report;
  }
  report.kind = TaskReport::Kind::kFailed;
  const Status told = calls_.Fail(caller, FailureOf(task.id, status));
  if (told.ok()) return report;
  if (stop_.stopped()) return Cancelled("stopped");
  if (!absl::IsNotFound(told) && !stop_.task_cancelled()) return told;
  report.kind = TaskReport::Kind::kGone;
  return report;
}

}  // namespace rivulet
