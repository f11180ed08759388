// CoordinatorApi: clients' calls, answered from the machine and the current model.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>

#include "coordinator/intake/chunk_writers.h"
#include "coordinator/rounds.h"
#include "engine/base/check.h"
#include "engine/profile/tracer.h"
#include "federated/random/streams.h"
#include "federated/transport/blob_reader.h"

namespace rivulet {
namespace {

SitePolled::Serves ServesOf(Serves::Kind kind) {
  switch (kind) {
    case Serves::Kind::kItself:
      return SitePolled::Serves::kItself;
    case Serves::Kind::kAny:
      return SitePolled::Serves::kAny;
    case Serves::Kind::kNames:
      return SitePolled::Serves::kNames;
  }
  RIVULET_CHECK(false, "a site that serves {}", static_cast<int>(kind));
}

}  // namespace

Task Rounds::MakeTask(Offer offer) const {
  Task task;
  task.stream_key = ClientKey(options_.scenario.run.seed, offer.lease.client_id);
  task.id = std::move(offer.lease.task);
  task.run_id = run_id_;
  task.client_id = std::move(offer.lease.client_id);
  task.kind = offer.lease.kind;
  task.base_version = offer.lease.base_round;
  task.step = offer.lease.step;
  task.ordinal = offer.lease.ordinal;
  task.plan = parts_.plan_digest;
  const Versions::Version version = versions_.Of(task.base_version);
  const ServedVersion& base = *version;
  task.inputs.push_back({"model", {BlobId::Form::kModel, base.sent_digest}});
  const bool trains = task.kind == TaskKind::kTrain;
  if (trains || (task.kind == TaskKind::kEvaluate && parts_.measures_broadcasts)) {
    for (const auto& [name, digest] : base.broadcasts) {
      task.inputs.push_back({fmt::format("{}{}", kBroadcastPrefix, name), {BlobId::Form::kBytes, digest}});
    }
  }
  if (trains) {
    if (number_rule_ != nullptr) task.numbers = number_rule_->Of(*base.numbers, task.client_id);
  }
  task.state_of = states_.Of(task.kind, task.client_id, task.base_version);
  const bool served = !offer.lease.site.empty() && offer.lease.site != task.client_id;
  const bool travels = served && offer.lease.via.empty();  // an aggregator's clients keep their states
  const std::shared_ptr<Attempt>& attempt = AttemptOf(task.kind);
  if (parts_.keeps_state && !task.state_of.empty() && attempt != nullptr && travels) {
    const BlobId state = StateBlobOf(task.state_of);
    task.inputs.push_back({"state", state});
    attempt->states[state.digest.Hex()] = {task.id, task.state_of};
  }
  if (task.step > 0) AddStepInput(task);
  task.gather = offer.gather;
  task.keep = reports_.keeps() && task.kind == TaskKind::kTrain && !offer.lease.via.empty();
  return task;
}

bool Rounds::Answer(const PollRequest& request, const std::set<std::string_view>& refused, PollReply* reply) {
  const std::string& name = request.caller.name;
  SitePolled event{name, ServesOf(request.serves.kind), {}, request.want};
  for (const ServedName& served : request.serves.names) {
    if (!refused.contains(served.name)) event.names.push_back(served.name);
  }
  MutexLock lock(mutex_);
  BeginRun();
  TickIfDue();
  if (!left_.empty() && !machine_.over()) return false;
  if (request.serves.kind == Serves::Kind::kNames) aggregators_.insert(name);
  event.working_on.reserve(request.working_on.size());
  for (const TaskProgress& progress : request.working_on) {
    if (MayHave(progress.task)) {
      event.working_on.push_back({progress.task, progress.held, progress.step});
    } else {
      reply->cancelled.push_back(progress.task);
    }
  }
  for (Action& action : Feed(event)) {
    if (auto* const offer = std::get_if<Offer>(&action); offer != nullptr && offer->again) {
      reply->tasks.push_back(MakeTask(std::move(*offer)));
    } else if (const auto* cancel = std::get_if<Cancel>(&action)) {
      reply->cancelled.push_back(cancel->task);
    } else if (auto* const hand_over = std::get_if<HandOverPartial>(&action)) {
      if (hand_over->site == name) reply->hand_over.push_back({hand_over->gather, std::move(hand_over->tasks)});
    } else if (const auto* wait = std::get_if<AskToWait>(&action)) {
      reply->wait_ms = wait->wait_ms;
      reply->awaited.sentence = wait->message;
    } else if (const auto* refusal = std::get_if<Refuse>(&action)) {
      // A stopped run may be resumed, here or by another process; and a client that was just removed may join again.
      if (machine_.phase() == RunMachine::Phase::kStopped || refusal->why == Refuse::Why::kUnknown) {
        reply->wait_ms = 1000;
        reply->awaited.sentence = refusal->reason;
      } else {
        reply->over =
            PollReply::Over{.failed = machine_.phase() == RunMachine::Phase::kFailed, .sentence = refusal->reason};
      }
    }
  }
  // A client with a task reports at the heartbeat's interval.
  if (!reply->tasks.empty()) reply->wait_ms = machine_.heartbeat_ms();
  TellProgress();
  reply->epoch = epoch_;
  return true;
}

// The counter of the client's open task; a download outside of a task is part of no row.
std::shared_ptr<std::atomic<int64_t>> Rounds::DownloadCounter(const std::string& client_id) {
  std::shared_ptr<std::atomic<int64_t>> counter;
  MutexLock lock(mutex_);
  for (const TaskKind kind : {TaskKind::kEvaluate, TaskKind::kTrain}) {
    const Lease* const lease = AttemptOf(kind) == nullptr ? nullptr : machine_.LeaseOf(client_id, kind);
    if (lease == nullptr || (counter != nullptr && !lease->in_hand())) continue;
    auto& tasks = AttemptOf(kind)->tasks;
    const auto entry = tasks.find(lease->task);
    if (entry == tasks.end()) continue;
    if (entry->second.downloaded == nullptr) entry->second.downloaded = std::make_shared<std::atomic<int64_t>>(0);
    counter = entry->second.downloaded;
  }
  return counter;
}

// A task that the machine does not know may be of an earlier attempt or process.
StatusOr<SubmitResult> Rounds::ResultOfRefused(const Refuse& refusal) {
  switch (refusal.why) {
    case Refuse::Why::kBusy:
      return Unavailable("{}", refusal.reason);
    case Refuse::Why::kDuplicate:
      return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
    case Refuse::Why::kLate:
      // A stopped run resumes with the same task: the client keeps its update.
      if (stopped()) return Unavailable("{}", refusal.reason);
      return SubmitResult{SubmitResult::Kind::kRefused, refusal.reason};
    case Refuse::Why::kUnknown:
    case Refuse::Why::kOver:
      break;
  }
  return clients_.ResultOf(refusal.client_id, refusal.task, refusal.reason);
}

StatusOr<std::unique_ptr<ChunkWriter>> Rounds::Submit(const Caller& caller, const Submission& submission) {
  RIVULET_ASSIGN_OR_RETURN(Intake::Begun begun, Begin(caller, submission));
  return std::move(begun).Open();
}

StatusOr<Intake::Begun> Rounds::Begin(const Caller& caller, const Submission& submission) {
  switch (submission.kind) {
    case Submission::Kind::kUpdate:
      return BeginUpdate(caller, submission);
    case Submission::Kind::kPartial:
      return BeginPartial(caller, submission);
    case Submission::Kind::kStep:
      return BeginStepAnswer(caller, submission);
    case Submission::Kind::kState:
      break;
  }
  return BeginState(caller, submission);
}

// The machine knows of an upload before its first byte, so a late or repeated one costs no transfer.
StatusOr<Intake::Begun> Rounds::BeginUpdate(const Caller& caller, const Submission& submission) {
  const TaskId& task = submission.task;
  if (submission.step != 0) {
    return InvalidArgument("task '{}' has no step {}; its only step is 0", task, submission.step);
  }
  if (parts_.steps > 1) {
    return InvalidArgument("task '{}' is of a secure sum, and its update comes masked at step {}", task,
                           parts_.sum_step);
  }
  std::optional<Refuse> refused;
  {
    MutexLock lock(mutex_);
    TickIfDue();
    if (!MayHave(task)) return NotFound("task '{}' starts from a version that was made again; poll for it", task);
    const std::vector<Action> actions = Feed(StepReported{caller.name, task, submission.step});
    if (const auto* refusal = std::get_if<Refuse>(&actions.at(0))) {
      refused = *refusal;
    } else if (const std::string why = WrongSize("an update", submission.bytes, max_update_bytes_); !why.empty()) {
      Feed(StageDone{task, false, why});
      return RefusedWriter(why);
    } else {
      TaskEntry& record = AttemptOf(task)->tasks.at(task);
      if (!record.upload_began) record.upload_began = clock_.Now();
      return intake_.BeginUpdate(submission, [this](const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) {
        StatusOr<SubmitResult> result = TakeUpdate(whole, std::move(update));
        events_.Drain();
        return result;
      });
    }
  }
  RIVULET_ASSIGN_OR_RETURN(SubmitResult result, ResultOfRefused(*refused));
  return Intake::Begun(std::make_unique<DecidedWriter>(std::move(result)));
}

Status Rounds::Fail(const Caller& caller, const TaskFailure& failure) {
  const TaskId& task = failure.task;
  // An update that is summed in steps arrives as words; only the step's own check refuses it.
  const std::optional<TaskName> named = TaskNameOf(task, run_id_);
  const bool in_steps = parts_.steps > 1 && named;
  const bool refused = failure.code == TaskFailure::Code::kBadUpdate && !in_steps;
  const std::string sentence = SentenceOf(failure);
  Status status;
  {
    MutexLock lock(mutex_);
    TickIfDue();
    if (!MayHave(task)) return NotFound("task '{}' starts from a version that was made again; poll for it", task);
    std::vector<Action> actions = Feed(StepReported{caller.name, task, 0, !refused, refused ? "" : sentence});
    // The same events as for an upload that is refused during aggregation.
    if (refused && std::holds_alternative<Stage>(actions.at(0))) actions = Feed(StageDone{task});
    if (refused && std::holds_alternative<Fold>(actions.at(0))) actions = Feed(FoldDone{task, false, sentence});
    for (const Action& action : actions) {
      const auto* refusal = std::get_if<Refuse>(&action);
      if (refusal != nullptr && refusal->why == Refuse::Why::kUnknown) status = NotFound("{}", refusal->reason);
    }
  }
  // Resolved already: repeating the report loses nothing.
  if (!status.ok()) {
    const auto earlier = clients_.LastOutcome(caller.name);
    if (earlier && earlier->task == task) status = absl::OkStatus();
  }
  if (status.ok() && named && failure.code == TaskFailure::Code::kBadModel && failure.subject == kStateSubject) {
    states_.Lost(*named);
  }
  if (refused && options_.tracer != nullptr) {
    const TraceArg args[] = {{"task", std::string_view(task)}, {"reason", std::string_view(sentence)}};
    options_.tracer->Instant({}, "round", "refused", args);
  }
  return status;
}

// The machine decides under the lock before the bytes are processed. Its state kFolding keeps the
// attempt open while this thread aggregates without the lock. So two simultaneous updates cannot
// both be the last wanted one, and no deadline closes an attempt during a check. The update's
// attempt is known only then. Fold checks each value as it adds it, and leaves no trace of a refused
// update.
StatusOr<SubmitResult> Rounds::TakeUpdate(const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) {
  const TaskId& task = whole.submission.task;
  const auto refused = [](std::string reason) { return SubmitResult{SubmitResult::Kind::kRefused, std::move(reason)}; };
  const std::optional<TaskName> name = TaskNameOf(task, run_id_);
  if (update.ok() && name && name->kind == TaskKind::kEvaluate) {
    const auto measures = MeasuresOf(parts_.evaluation, update->record.declared);
    if (!measures.ok()) update = measures.status();
  }
  if (update.ok() && reports_.keeps()) RIVULET_RETURN_IF_ERROR(reports_.Keep(whole));

  bool stopped = false, busy = false, no_room = false;
  std::shared_ptr<Attempt> attempt;  // into which it is aggregated
  int64_t base_version = 0;
  SubmitResult result;
  {
    MutexLock lock(mutex_);
    // Once the attempt is closed, its records belong to the commit.
    if (TaskEntry* const record = EntryOf(task); record != nullptr) {
      record->uploaded = clock_.Now();
      record->bytes_up += std::ssize(whole.bytes);
      record->update_digest = whole.identity;
      base_version = record->base_version;
    }
    if (update.ok()) {
      if (const Status same = CheckNumbers(task, update->record.declared); !same.ok()) update = same;
    }
    if (!update.ok()) result = refused(std::string(Message(update.status())));
    for (const Action& action : Feed(StageDone{task, update.ok(), result.reason})) {
      if (std::holds_alternative<Fold>(action)) attempt = AttemptOf(task);
      const auto* refusal = std::get_if<Refuse>(&action);
      if (refusal == nullptr || refusal->task != task) continue;
      stopped = machine_.phase() == RunMachine::Phase::kStopped;
      busy = refusal->why == Refuse::Why::kBusy;
      result = refusal->why == Refuse::Why::kDuplicate ? SubmitResult{SubmitResult::Kind::kDuplicate, ""}
                                                       : refused(refusal->reason);
    }
  }
  if (attempt != nullptr) {
    TraceSpan folding(options_.tracer, "phase", "fold");
    folding.Arrow(Tracer::Flow::kEnd, Tracer::kTask, task);
    const StatusOr<Aggregation::Taken> taken = attempt->accumulator->Take(update->view(base_version));
    folding.End();
    // A fault of this machine's disk, not of the update: the run ends as after any failed write, and can be resumed.
    no_room =
        parts_.sum_files != nullptr && (absl::IsResourceExhausted(taken.status()) || absl::IsInternal(taken.status()));
    if (no_room) CannotWrite(taken.status());
    if (!taken.ok()) result = refused(std::string(Message(taken.status())));
    MutexLock lock(mutex_);
    // A refused update's own figures are not recorded.
    if (taken.ok() && attempt->open) {
      update->record.update_norm = taken->norm;
      Record(*attempt, update->record);
    }
    Feed(FoldDone{task, taken.ok(), result.reason});
    TellProgress();
  }
  if (reports_.keeps() && result.kind == SubmitResult::Kind::kRefused && !stopped && !no_room)
    reports_.store().Remove(task);
  if (stopped) return Unavailable("the run was stopped; this update can be sent again when it is resumed");
  if (busy || no_room) return Unavailable("{}", result.reason);
  if (options_.tracer != nullptr && result.kind == SubmitResult::Kind::kRefused) {
    const TraceArg args[] = {{"task", std::string_view(task)}, {"reason", std::string_view(result.reason)}};
    options_.tracer->Instant({}, "round", "refused", args);
  }
  return result;
}

}  // namespace rivulet
