// What clients and aggregators ask, answered from what is here; nothing of it waits for the parent.
#include <algorithm>
#include <string_view>

#include "aggregator/aggregator.h"
#include "aggregator/blobs.h"
#include "coordinator/intake/chunk_writers.h"
#include "coordinator/ledger/evaluation.h"
#include "engine/base/display_name.h"
#include "federated/transport/blob_reader.h"

namespace rivulet {
namespace {

constexpr size_t kMostMembers = size_t{1} << 20;
// So long a client that was silent may be reached on another way than before.
constexpr std::chrono::seconds kWayForgotten{60};

std::unique_ptr<ChunkWriter> Duplicate() {
  return std::make_unique<DecidedWriter>(SubmitResult{SubmitResult::Kind::kDuplicate, ""});
}

SubmitResult Refused(std::string_view reason) { return {SubmitResult::Kind::kRefused, std::string(reason)}; }

}  // namespace

Status Aggregator::CheckCall(const Caller& caller) const {
  if (ended_ && !over_) return Unavailable("aggregator '{}' is being stopped; ask again", options_.name);
  if (!caller.run_id.empty() && !run_id_.empty() && caller.run_id != run_id_) {
    return NotFound("this aggregator serves run '{}', not '{}'", run_id_, caller.run_id);
  }
  return absl::OkStatus();
}

StatusOr<PollReply> Aggregator::Poll(const PollRequest& request) {
  if (request.capabilities.protocol != kProtocol) {
    return FailedPrecondition(
        "'{}' (version '{}') speaks protocol {}, and this aggregator {}; install the same version at both",
        request.caller.name, DisplayText(request.capabilities.version, 40), request.capabilities.protocol, kProtocol);
  }
  std::string event;
  StatusOr<PollReply> reply = PollReply{};
  {
    MutexLock lock(mutex_);
    RIVULET_RETURN_IF_ERROR(CheckCall(request.caller));
    if (over_) {
      reply->over = over_;
      return reply;
    }
    switch (request.serves.kind) {
      case Serves::Kind::kItself:
        reply = PollOfClient(request);
        break;
      case Serves::Kind::kNames:
        reply = PollOfAggregator(request, &event);
        break;
      case Serves::Kind::kAny:
        return PermissionDenied(
            "'{}' asks for the tasks of every client of the run, and an aggregator serves its own clients alone",
            request.caller.name);
    }
    // Its parent has no place for this client now, and may have one later.
    std::string waits;
    if (request.serves.kind == Serves::Kind::kItself && absl::IsResourceExhausted(reply.status())) {
      waits = Message(reply.status());
      reply = PollReply{};
    }
    if (reply.ok()) {
      reply->epoch = epoch_;
      reply->awaited.sentence = awaited_.empty() ? "the coordinator that this aggregator works for" : awaited_;
      const bool busy = !reply->tasks.empty() || !request.working_on.empty();
      reply->wait_ms = busy ? beat_ms_ : std::clamp<int64_t>(std::ssize(members_), 20, 10'000);
      if (!waits.empty()) {
        constexpr int64_t kWaitForPlaceMs = 5000;
        reply->awaited.sentence = std::move(waits);
        reply->wait_ms = kWaitForPlaceMs;
      }
    }
  }
  if (!event.empty()) Tell("info", event);
  return reply;
}

// Who is turned away is forgotten once told: it may come again when it has been mended.
Status Aggregator::Hear(const ServedName& served, const std::string& below) {
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("a client's name", served.name));
  if (served.name == options_.name || below_.contains(served.name)) {
    return InvalidArgument("client '{}' has the name of an aggregator; give it another", served.name);
  }
  const auto found = members_.find(served.name);
  if (found == members_.end() && members_.size() >= kMostMembers) {
    return Unavailable("aggregator '{}' serves {} clients already; ask again", options_.name, members_.size());
  }
  if (found != members_.end() && !found->second.refused.ok()) {
    const Status refused = found->second.refused;
    members_.erase(found);
    heard_.erase(served.name);
    return refused;
  }
  const Clock::time_point now = Clock::now();
  Member& member = members_[served.name];
  if (found == members_.end()) {
    member.below = below;
  } else if (member.below != below) {
    // A client that calls itself is believed at once.
    if (!below.empty() && now - member.called < kWayForgotten) {
      return Unavailable("client '{}' is served on another connection; it may change it after {} s of silence",
                         served.name, kWayForgotten.count());
    }
    member.below = below;
    if (const auto tasks = jobs_of_.find(served.name); tasks != jobs_of_.end()) {
      for (const TaskId& task : tasks->second) {
        if (Job& job = jobs_.at(task); job.stage == Job::Stage::kGiven) OfferAgain(job);
      }
    }
  }
  member.called = now;
  member.datasets = served.datasets;
  const bool first = heard_.empty();
  heard_.insert(served.name);
  if (!member.confirmed) dirty_ = true;
  if (first || dirty_) changed_.NotifyAll();
  return absl::OkStatus();
}

const std::string& Aggregator::WayOf(const std::string& client_id) const {
  const auto member = members_.find(client_id);
  return member == members_.end() || member->second.below.empty() ? client_id : member->second.below;
}

void Aggregator::News(const std::string& client_id) {
  if (listener_ != nullptr) listener_->OnNews(WayOf(client_id));
  ++epoch_;
  changed_.NotifyAll();
}

Aggregator::Job* Aggregator::JobOf(const Caller& caller, const TaskId& task) {
  const auto job = jobs_.find(task);
  return job == jobs_.end() || WayOf(job->second.task.client_id) != caller.name ? nullptr : &job->second;
}

// A task that this process does not know may be one that the process before it gave. Nothing is cancelled before the
// parent has said what its client has.
void Aggregator::NoteWorkingOn(const PollRequest& request, std::set<TaskId>* named, PollReply* reply) {
  for (const TaskProgress& progress : request.working_on) {
    if (Job* const job = JobOf(request.caller, progress.task); job != nullptr) {
      job->heard = true;
      const bool below = request.serves.kind == Serves::Kind::kNames;
      // Of a step that is behind this one it has yet to hear of it.
      if (progress.step != job->task.step) continue;
      named->insert(progress.task);
      job->held_below = progress.held && below;
      if (job->stage == Job::Stage::kOffered) job->stage = Job::Stage::kGiven;  // it has it still
      if (progress.held) NoteAnswered(*job, below);
      continue;
    }
    const std::optional<TaskName> name = TaskNameOf(progress.task, request.caller.run_id);
    const auto member = name ? members_.find(name->client_id) : members_.end();
    if (member == members_.end() || member->second.confirmed) reply->cancelled.push_back(progress.task);
  }
}

void Aggregator::Give(const std::string& client_id, const std::set<TaskId>& named, int64_t* want, PollReply* reply) {
  const auto tasks = jobs_of_.find(client_id);
  if (tasks == jobs_of_.end()) return;
  for (const TaskId& task : tasks->second) {
    Job& job = jobs_.at(task);
    const bool answered = job.stage == Job::Stage::kAnswered;
    const bool again = (answered || job.stage == Job::Stage::kGiven) && !named.contains(task);
    if (job.stage != Job::Stage::kOffered && !again) continue;
    if (job.task.step > 0) ++*want;  // it is no new task
    if (*want <= 0) continue;
    if (!answered) job.stage = Job::Stage::kGiven;
    job.heard = true;
    job.held_below = false;
    reply->tasks.push_back(job.task);
    --*want;
  }
}

StatusOr<PollReply> Aggregator::PollOfClient(const PollRequest& request) {
  const std::string& name = request.caller.name;
  RIVULET_RETURN_IF_ERROR(Hear({name, request.capabilities.datasets}, ""));
  PollReply reply;
  std::set<TaskId> named;
  NoteWorkingOn(request, &named, &reply);
  int64_t want = request.want;
  Give(name, named, &want, &reply);
  if (const auto& outcome = members_.at(name).outcome; outcome) reply.outcomes.push_back(*outcome);
  return reply;
}

StatusOr<PollReply> Aggregator::PollOfAggregator(const PollRequest& request, std::string* event) {
  const std::string& below = request.caller.name;
  RIVULET_RETURN_IF_ERROR(AdmitAggregator(request, event));
  PollReply reply;
  std::vector<const ServedName*> served;
  for (const ServedName& name : request.serves.names) {
    Status heard = Hear(name, below);
    if (heard.ok()) {
      served.push_back(&name);
    } else {
      reply.refused_names.push_back({name.name, std::move(heard)});
    }
  }
  std::set<TaskId> named;
  NoteWorkingOn(request, &named, &reply);
  int64_t want = request.want;
  for (const ServedName* name : served) {
    Give(name->name, named, &want, &reply);
    if (const auto& outcome = members_.at(name->name).outcome; outcome) reply.outcomes.push_back(*outcome);
  }
  for (auto& [task, job] : jobs_) {
    if (want <= 0) break;
    if (job.stage != Job::Stage::kOffered || WayOf(job.task.client_id) != below) continue;
    job.stage = Job::Stage::kGiven;
    job.heard = true;
    reply.tasks.push_back(job.task);
    --want;
  }
  AskHolder(below, &reply);
  return reply;
}

// As soon as all that an aggregator has of a gathering is held there: then it is this aggregator's to keep, and what
// becomes of that one harms nobody.
void Aggregator::AskHolder(const std::string& below, PollReply* reply) const {
  std::map<uint64_t, std::vector<TaskId>> held;
  std::set<uint64_t> waits;
  for (const auto& [task, job] : jobs_) {
    if (job.stage > Job::Stage::kGiven || WayOf(job.task.client_id) != below) continue;
    if (job.held_below && job.stage > Job::Stage::kFetched) {
      held[job.task.gather].push_back(task);
    } else {
      waits.insert(job.task.gather);
    }
  }
  for (auto& [gather, tasks] : held) {
    if (!waits.contains(gather)) reply->hand_over.push_back({gather, std::move(tasks)});
  }
}

StatusOr<std::unique_ptr<ChunkReader>> Aggregator::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckCall(caller));
  const auto found = blobs_.find(KeyOf(blob));
  if (found == blobs_.end()) {
    return NotFound("this aggregator has no blob {}, or no longer; poll for the current task", blob.digest.Hex());
  }
  if (!MayFetch(caller, blob)) return NotFound("blob {} is the input of another client's step", blob.digest.Hex());
  const std::shared_ptr<const std::string> bytes = found->second;
  if (offset < 0 || offset > std::ssize(*bytes)) {
    return OutOfRange("offset {} is not within the {} bytes of blob {}", offset, bytes->size(), blob.digest.Hex());
  }
  const auto at = [bytes](int64_t from) { return std::as_bytes(std::span(*bytes)).subspan(static_cast<size_t>(from)); };
  return std::make_unique<BlobReader>(Blob{std::ssize(*bytes), at}, offset, nullptr);
}

Status Aggregator::Fail(const Caller& caller, const TaskFailure& failure) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckCall(caller));
  const Job* const job = JobOf(caller, failure.task);
  if (job == nullptr || (job->stage > Job::Stage::kGiven && job->stage != Job::Stage::kAnswered)) {
    return NotFound("'{}' has no task '{}' here", caller.name, failure.task);
  }
  FailUp(failure);
  return absl::OkStatus();
}

void Aggregator::AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  MutexLock lock(mutex_);
  while (epoch_ == epoch && !ended_) {
    const auto left = until - Clock::now();
    if (left.count() <= 0) return;
    changed_.WaitFor(mutex_, left);
  }
}

void Aggregator::SetListener(NewsListener* listener) {
  MutexLock lock(mutex_);
  listener_ = listener;
}

StatusOr<std::unique_ptr<ChunkWriter>> Aggregator::Submit(const Caller& caller, const Submission& submission) {
  RIVULET_ASSIGN_OR_RETURN(Intake::Begun begun, Begin(caller, submission));
  return std::move(begun).Open();
}

StatusOr<Intake::Begun> Aggregator::Begin(const Caller& caller, const Submission& submission) {
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(CheckCall(caller));
  switch (submission.kind) {
    case Submission::Kind::kUpdate:
      return BeginUpload(caller, submission);
    case Submission::Kind::kPartial:
      return BeginPartial(caller, submission);
    case Submission::Kind::kStep:
      return BeginStepAnswer(caller, submission);
    case Submission::Kind::kState:
      break;
  }
  return PermissionDenied("'{}' sends client state; an aggregator's clients keep it on their disks", caller.name);
}

StatusOr<Intake::Begun> Aggregator::WhereTaskIsUnknown(const Caller& caller, const TaskId& task) const {
  if (over_) return RefusedWriter("the run is over");
  // Of a client that an aggregator below serves, or of the caller itself.
  const std::optional<TaskName> name = TaskNameOf(task, caller.run_id);
  const std::string& client_id = name && WayOf(name->client_id) == caller.name ? name->client_id : caller.name;
  const auto member = members_.find(client_id);
  if (member == members_.end() || !member->second.confirmed) {
    return Unavailable("this aggregator does not know the coordinator's answer for '{}' yet; ask again", client_id);
  }
  if (const auto& last = member->second.outcome; last && last->task == task) {
    return last->end == TaskEnd::kFolded ? Duplicate() : RefusedWriter(last->reason);
  }
  return NotFound("client '{}' has no task '{}'", caller.name, task);
}

StatusOr<Intake::Begun> Aggregator::BeginUpload(const Caller& caller, const Submission& submission) {
  const TaskId& task = submission.task;
  if (submission.step != 0)
    return InvalidArgument("task '{}' has no step {}; its only step is 0", task, submission.step);
  Job* const job = JobOf(caller, task);
  if (job == nullptr) return WhereTaskIsUnknown(caller, task);
  if (ProtocolOf(job->task) != nullptr) {
    return InvalidArgument("task '{}' is of a secure sum, and its update comes masked", task);
  }
  switch (job->stage) {
    case Job::Stage::kFetched:
      return Unavailable("the inputs of task '{}' are being fetched again; ask again", task);
    case Job::Stage::kFolding:
      return Unavailable("this update is being folded; ask again");
    case Job::Stage::kAnswered:
    case Job::Stage::kHeld:
    case Job::Stage::kSending:
      return Duplicate();
    case Job::Stage::kOffered:
    case Job::Stage::kGiven:
      break;
  }
  job->heard = true;
  const int64_t most = MostUpdateBytes(plans_.at(job->task.plan).training);
  if (std::string why = WrongSize("an update", submission.bytes, most); !why.empty()) {
    FailUp({.task = task, .code = TaskFailure::Code::kBadUpdate});
    return RefusedWriter(std::move(why));
  }
  return intake_.BeginUpdate(submission, [this](const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) {
    return TakeUpdate(whole, std::move(update));
  });
}

StatusOr<std::shared_ptr<Aggregator::Gathering>> Aggregator::Open(const Task& task) {
  std::shared_ptr<Gathering>& gathering = gatherings_[task.gather];
  if (gathering == nullptr) {
    auto aggregation = Aggregation::Create(plans_.at(task.plan).of(task.kind));
    if (!aggregation.ok()) {
      gatherings_.erase(task.gather);
      return aggregation.status();
    }
    gathering = std::make_shared<Gathering>();
    gathering->pot = std::make_unique<RoundAccumulator>(*std::move(aggregation));
    gathering->base_version = task.base_version;
  }
  return gathering;
}

// As the coordinator takes one: decided under the lock, folded without it, where it leaves no trace unless it is good.
StatusOr<SubmitResult> Aggregator::TakeUpdate(const Upload::Whole& whole, StatusOr<ArrivedUpdate> update) {
  const TaskId& task = whole.submission.task;
  SubmitResult result;
  std::shared_ptr<Gathering> gathering;
  Task of;
  {
    MutexLock lock(mutex_);
    gathering = Admit(task, update, &of, &result);
  }
  if (gathering == nullptr) return result;
  const Status kept = of.keep ? Keep(of, whole) : absl::OkStatus();
  if (kept.ok()) return FoldInto(gathering, of, *std::move(update));
  MutexLock lock(mutex_);
  --gathering->folding;
  const auto job = jobs_.find(task);
  // Meanwhile it may have been given up and brought all the same.
  if (job != jobs_.end() && job->second.stage == Job::Stage::kFolding) job->second.stage = Job::Stage::kGiven;
  return Unavailable("this update cannot be kept: {}; ask again", Message(kept));
}

std::shared_ptr<Aggregator::Gathering> Aggregator::Admit(const TaskId& task, StatusOr<ArrivedUpdate>& update, Task* of,
                                                         SubmitResult* result) {
  const auto job = jobs_.find(task);
  if (job == jobs_.end() || job->second.stage > Job::Stage::kGiven) {
    *result = job == jobs_.end() ? Refused("its round is over") : SubmitResult{SubmitResult::Kind::kDuplicate, ""};
    return nullptr;
  }
  *of = job->second.task;
  if (update.ok() && of->kind == TaskKind::kEvaluate) {
    const auto measures = MeasuresOf(plans_.at(of->plan).evaluation, update->record.declared);
    if (!measures.ok()) update = measures.status();
  }
  StatusOr<std::shared_ptr<Gathering>> open = update.ok() ? Open(*of) : update.status();
  if (!open.ok()) {
    *result = Refused(Message(open.status()));
    FailUp({.task = task, .code = TaskFailure::Code::kBadUpdate});
    return nullptr;
  }
  ++(*open)->folding;
  job->second.stage = Job::Stage::kFolding;
  return *std::move(open);
}

SubmitResult Aggregator::FoldInto(const std::shared_ptr<Gathering>& gathering, const Task& of, ArrivedUpdate update) {
  const StatusOr<Aggregation::Taken> taken = gathering->pot->Take(update.view(of.base_version));
  SubmitResult result;
  {
    MutexLock lock(mutex_);
    --gathering->folding;
    const auto job = jobs_.find(of.id);
    const bool wanted = job != jobs_.end() && !gathering->gone;
    if (!taken.ok()) {
      result = Refused(Message(taken.status()));
      if (job != jobs_.end()) FailUp({.task = of.id, .code = TaskFailure::Code::kBadUpdate});
    } else if (wanted) {
      update.record.update_norm = taken->norm;
      gathering->records.push_back(std::move(update.record));
      job->second.stage = Job::Stage::kHeld;
    } else {
      // It is in a sum that it should not be in; or its sum went while it was added. One that is kept is added again.
      if (!gathering->gone) DropGathering(of.gather);
      const bool again = job != jobs_.end() && job->second.kept;
      if (job != jobs_.end()) OfferAgain(job->second);
      if (!again) result = Refused("its round is over");
    }
    dirty_ = true;
    changed_.NotifyAll();
  }
  if (!taken.ok() && of.keep) PersistedOf(of.client_id).Drop(of.id, result.reason);
  return result;
}

}  // namespace rivulet
