// The steps of secure aggregation: answers go to the protocol's server half, and the machine counts them. At the sum's
// step the machine decides before words are added, so both have one set; else the server half checks first.
#include <algorithm>

#include "coordinator/intake/chunk_writers.h"
#include "coordinator/rounds.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

SubmitResult Refused(std::string reason) { return {SubmitResult::Kind::kRefused, std::move(reason)}; }

// The machine's refusal of an answer; nullopt: it accepts.
std::optional<SubmitResult> RefusalOf(std::span<const Action> actions, const TaskId& task) {
  for (const Action& action : actions) {
    const auto* const refusal = std::get_if<Refuse>(&action);
    if (refusal == nullptr || refusal->task != task) continue;
    if (refusal->why == Refuse::Why::kDuplicate) return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
    return Refused(refusal->reason);
  }
  return std::nullopt;
}

}  // namespace

void Rounds::BeginSecureStep(TaskKind kind, const NextStep& next, std::vector<Action>& actions) {
  const std::shared_ptr<Attempt>& attempt = AttemptOf(kind);
  if (attempt == nullptr || attempt->secure == nullptr) return;
  const Status begun = attempt->secure->BeginStep(next.step, next.clients);
  if (begun.ok()) return;
  std::vector<Action> ended = Feed(SumSettled{false, std::string(Message(begun)), kind});
  std::ranges::move(ended, std::back_inserter(actions));
}

// Its name is the digest of its bytes. Only the holder of the task may fetch it. Inputs of several clients may be
// equal.
void Rounds::AddStepInput(Task& task) const {
  const std::shared_ptr<Attempt>& attempt = AttemptOf(task.kind);
  if (attempt == nullptr || attempt->secure == nullptr) return;
  StatusOr<std::string> input = attempt->secure->InputFor(task.client_id);
  if (!input.ok()) return;  // the server half has begun no step for it: the client waits
  const Digest digest = Sha256Of(*input);
  attempt->step_inputs[{digest.Hex(), task.id}] = std::make_shared<const std::string>(*std::move(input));
  task.inputs.push_back({"step", {BlobId::Form::kBytes, digest}});
}

std::shared_ptr<const std::string> Rounds::StepInput(const Caller& caller, const BlobId& blob) {
  if (parts_.steps == 1 || blob.form != BlobId::Form::kBytes) return nullptr;
  MutexLock lock(mutex_);
  const std::string digest = blob.digest.Hex();
  for (const std::shared_ptr<Attempt>& attempt : {attempt_, evaluation_}) {
    if (attempt == nullptr) continue;
    const auto& inputs = attempt->step_inputs;
    for (auto input = inputs.lower_bound({digest, ""}); input != inputs.end(); ++input) {
      const auto& [of, task] = input->first;
      if (of != digest) break;
      const Lease* const lease = machine_.FindLease(task);
      if (lease != nullptr && lease->site == caller.name) return input->second;
    }
  }
  return nullptr;
}

StatusOr<Intake::Begun> Rounds::BeginStepAnswer(const Caller& caller, const Submission& submission) {
  const TaskId& task = submission.task;
  if (submission.step < 0 || submission.step >= parts_.steps || parts_.steps == 1) {
    return InvalidArgument("task '{}' has no step {} of secure aggregation", task, submission.step);
  }
  std::optional<Refuse> refused;
  {
    MutexLock lock(mutex_);
    TickIfDue();
    const std::vector<Action> actions = Feed(StepReported{caller.name, task, submission.step});
    if (const auto* refusal = std::get_if<Refuse>(&actions.at(0))) {
      refused = *refusal;
    } else {
      const std::shared_ptr<Attempt> attempt = AttemptOf(task);
      if (const std::string why =
              WrongSize("an answer to a step", submission.bytes, attempt->secure->MostBytes(submission.step));
          !why.empty()) {
        Feed(StageDone{task, false, why});
        return RefusedWriter(why);
      }
      TaskEntry& record = attempt->tasks.at(task);
      if (!record.upload_began) record.upload_began = clock_.Now();
      std::string key = fmt::format("step {} of {}", submission.step, task);
      attempt->arriving.insert(key);
      const std::string client_id = machine_.FindLease(task)->client_id;
      return intake_.BeginBytes(
          key, submission,
          [this, attempt, submission, client_id](std::span<const std::byte> bytes) -> StatusOr<SubmitResult> {
            SubmitResult result = submission.step == parts_.sum_step
                                      ? TakeWords(attempt, submission.task, client_id, bytes)
                                      : TakeStepAnswer(attempt, submission, client_id, bytes);
            events_.Drain();
            return result;
          });
    }
  }
  RIVULET_ASSIGN_OR_RETURN(SubmitResult result, ResultOfRefused(*refused));
  return Intake::Begun(std::make_unique<DecidedWriter>(std::move(result)));
}

SubmitResult Rounds::TakeWords(const std::shared_ptr<Attempt>& attempt, const TaskId& task,
                               const std::string& client_id, std::span<const std::byte> bytes) {
  {
    MutexLock lock(mutex_);
    if (TaskEntry* const record = EntryOf(task); record != nullptr) {
      record->uploaded = clock_.Now();
      record->bytes_up += std::ssize(bytes);
    }
    const std::vector<Action> actions = Feed(StageDone{task});
    if (const auto refusal = RefusalOf(actions, task)) return *refusal;
    const auto folds = [](const Action& action) { return std::holds_alternative<Fold>(action); };
    if (std::ranges::none_of(actions, folds)) return Refused("its step has ended");
  }
  // kFolding keeps the step open, so that the server half and the machine have the same survivors.
  const SecureRound::WordsOf of[] = {{client_id, task}};
  const Status added = attempt->secure->AddWords(of, bytes);
  MutexLock lock(mutex_);
  Feed(FoldDone{task, added.ok(), std::string(Message(added))});
  TellProgress();
  return added.ok() ? SubmitResult{} : Refused(std::string(Message(added)));
}

// Words of an aggregator's clients. An invalid sum is the aggregator's fault: it loses its tasks, and no other site can
// continue them without their earlier steps.
StatusOr<Intake::Begun> Rounds::BeginSummedWords(const std::shared_ptr<Attempt>& attempt, const Caller& caller,
                                                 const Submission& submission) {
  const auto word_bytes = static_cast<size_t>(attempt->secure->MostBytes(parts_.sum_step));
  const auto most =
      static_cast<int64_t>(secure::MostSummedWordsBytes(word_bytes, static_cast<size_t>(secure::kMostMembers)));
  if (std::string why = WrongSize("a sum of masked words", submission.bytes, most); !why.empty()) {
    return RefusedWriter(std::move(why));
  }
  std::string key = fmt::format("words {} of aggregator {}", submission.gather, caller.name);
  attempt->arriving.insert(key);
  return intake_.BeginBytes(
      key, submission,
      [this, attempt, caller, key, word_bytes](std::span<const std::byte> bytes) -> StatusOr<SubmitResult> {
        const StatusOr<secure::SummedWordsMessage> words = secure::ParseSummedWords(bytes, word_bytes);
        StatusOr<SubmitResult> result = words.ok() ? TakeSummedWords(attempt, caller.name, *words) : words.status();
        if (absl::IsInvalidArgument(result.status())) result = Refused(std::string(Message(result.status())));
        const bool refused = result.ok() && result->kind == SubmitResult::Kind::kRefused;
        {
          MutexLock lock(mutex_);
          attempt->arriving.erase(key);
          if (refused) Feed(SiteLost{caller.name});
        }
        if (refused) {
          events_.Tell(events_.Note(
              "warning", fmt::format("the words of aggregator '{}' are refused: {}", caller.name, result->reason),
              attempt->round));
        }
        events_.Drain();
        return result;
      });
}

StatusOr<SubmitResult> Rounds::TakeSummedWords(const std::shared_ptr<Attempt>& attempt, const std::string& aggregator,
                                               const secure::SummedWordsMessage& words) {
  std::vector<SecureRound::WordsOf> of;
  {
    MutexLock lock(mutex_);
    TickIfDue();
    for (const Action& action : Feed(PartialReported{aggregator, words.tasks, false})) {
      const auto* refusal = std::get_if<Refuse>(&action);
      if (refusal == nullptr) continue;
      if (refusal->why == Refuse::Why::kBusy) return Unavailable("{}", refusal->reason);
      if (refusal->why == Refuse::Why::kDuplicate) return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
      return Refused(refusal->reason);
    }
    for (const TaskId& task : words.tasks) {
      of.push_back({machine_.FindLease(task)->client_id, task});
      if (TaskEntry* const record = EntryOf(task); record != nullptr) record->uploaded = clock_.Now();
    }
  }
  const Status added = attempt->secure->AddWords(of, words.words);
  MutexLock lock(mutex_);
  Feed(Merged{words.tasks, added.ok(), std::string(Message(added))});
  TellProgress();
  return added.ok() ? SubmitResult{} : Refused(std::string(Message(added)));
}

// Checks signatures and shares, a few per call.
SubmitResult Rounds::TakeStepAnswer(const std::shared_ptr<Attempt>& attempt, const Submission& submission,
                                    const std::string& client_id, std::span<const std::byte> bytes) {
  const std::string_view answer(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Status accepted = attempt->secure->Accept(submission.step, client_id, answer);
  Status settled;
  const bool settles = accepted.ok() && submission.step == parts_.steps - 1 && attempt->secure->CanUnmask();
  if (settles) settled = SettleSum(*attempt);
  MutexLock lock(mutex_);
  if (TaskEntry* const record = EntryOf(submission.task); record != nullptr) record->bytes_up += std::ssize(bytes);
  // While the sum was read, the attempt may have ended at its deadline; its outcome must not affect the next attempt.
  if (const TaskKind kind = attempt->kind; settles && attempt == AttemptOf(kind)) {
    // While more shares may arrive, a sum that cannot be read yet may become readable.
    const int64_t out =
        machine_.CountInState(Lease::State::kTaken, kind) + machine_.CountInState(Lease::State::kStaging, kind);
    if (settled.ok()) {
      Feed(SumSettled{true, "", kind});
    } else if (out <= 1) {
      Feed(SumSettled{false, std::string(Message(settled)), kind});
    }
  }
  const std::vector<Action> actions = Feed(StageDone{submission.task, accepted.ok(), std::string(Message(accepted))});
  if (!accepted.ok()) return Refused(std::string(Message(accepted)));
  return RefusalOf(actions, submission.task).value_or(SubmitResult{});
}

// The sum is merged into the attempt's own, which checks its counts, its range, and its norm against the clip.
Status Rounds::SettleSum(Attempt& attempt) {
  TraceSpan unmasking(options_.tracer, "phase", "unmask");
  const int64_t base_version = attempt.kind == TaskKind::kTrain ? attempt.round - 1 : attempt.round;
  RIVULET_ASSIGN_OR_RETURN(Partial sum, attempt.secure->Unmask(base_version));
  unmasking.End();
  const Status merged = attempt.accumulator->Merge(std::move(sum), 0);
  // Two threads may both have enough, and the second finds the sum merged; or the attempt has ended meanwhile.
  if (absl::IsFailedPrecondition(merged)) return absl::OkStatus();
  return merged;
}

}  // namespace rivulet
