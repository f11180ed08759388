#include "client/site.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "client/failure.h"
#include "engine/profile/tracer.h"
#include "federated/updates/site_partial_bytes.h"

namespace rivulet {
namespace {

// What a site takes is about so much work, and so often it says how far it is.
constexpr std::chrono::duration<double> kBetweenPolls{0.02};

}  // namespace

Site::Site(CoordinatorApi& api, const ClientData& data, ArtifactCache& artifacts, StopSignal& stop, SiteOptions options)
    : api_(api),
      data_(data),
      artifacts_(artifacts),
      stop_(stop),
      options_(std::move(options)),
      caller_{.name = options_.name,
              .certificate_serial = "",
              .run_id = options_.run_id,
              .session = uint64_t{std::random_device()()} << 32 | std::random_device()()},
      calls_(api, stop, options_.calls),
      travelling_(api, stop, caller_, options_.calls),
      trainer_(artifacts, stop, options_.instruments, options_.states != nullptr ? options_.states : &travelling_, 0,
               options_.device),
      want_(options_.least_tasks) {}

Status Site::Run() {
  EnterWorkerThread();
  asked_ = Clock::now();
  while (!stop_.stopped()) {
    if (queue_.empty() || Clock::now() - asked_ >= kBetweenPolls) {
      PollReply reply;
      // What is trained at once is asked for until it is there, or no more comes: an answer gives a share of what is
      // left.
      do {
        RIVULET_ASSIGN_OR_RETURN(reply, Ask());
        RIVULET_RETURN_IF_ERROR(Obey(reply));
        std::ranges::move(reply.tasks, std::back_inserter(queue_));
      } while (!reply.tasks.empty() && std::ssize(queue_) < options_.least_tasks);
      if (queue_.empty()) {
        if (reply.over) return absl::OkStatus();
        if (reply.hand_over.empty()) api_.AwaitWork(caller_, reply.epoch, reply.wait_ms);
        continue;
      }
    }
    const std::vector<Task> tasks = NextTasks();
    RIVULET_RETURN_IF_ERROR(Work(tasks));
    done_ += std::ssize(tasks);
  }
  return Cancelled("stopped");
}

// Which tasks go together is nobody's business but this site's: the sums are integers. Over a network each keeps its
// lease alive by itself.
std::vector<Task> Site::NextTasks() {
  std::vector<Task> tasks;
  tasks.push_back(std::move(queue_.front()));
  queue_.pop_front();
  if (queue_.empty() || heartbeat_ != nullptr || !options_.holds || Changes(tasks[0])) return tasks;
  const Task first = tasks[0];
  const NamedBlob* const model = first.input("model");
  const auto data = data_.Of(first.client_id);
  if (!data.ok() || model == nullptr) return tasks;
  int most = 0;  // asked for when there is another: the answer may cost a program of this size
  int64_t largest = data->size();
  for (auto task = queue_.begin(); (most == 0 || std::ssize(tasks) < most) && task != queue_.end();) {
    const NamedBlob* const base = task->input("model");
    const bool alike = !Changes(*task) && task->plan == first.plan && task->kind == first.kind &&
                       task->gather == first.gather && task->base_version == first.base_version && base != nullptr &&
                       base->id.digest == model->id.digest;
    const auto other = alike ? data_.Of(task->client_id) : data;
    if (!alike || !other.ok() || (other->size() != data->size() && !trainer_.TakesUnlikeTasks())) {
      ++task;
      continue;
    }
    if (most == 0 || other->size() > largest) {
      largest = std::max(largest, other->size());
      most = trainer_.MostLanes(first, largest);
    }
    if (most <= std::ssize(tasks)) break;
    tasks.push_back(std::move(*task));
    task = queue_.erase(task);
  }
  return tasks;
}

Status Site::Work(std::span<const Task> tasks) {
  if (tasks.size() > 1) {
    RIVULET_ASSIGN_OR_RETURN(const bool done, WorkTogether(tasks));
    if (done) return absl::OkStatus();
  }
  for (const Task& task : tasks) {
    RIVULET_RETURN_IF_ERROR(
        TraceTask(options_.instruments.tracer, task.client_id, task, [&] { return Work(task); }).status());
  }
  return absl::OkStatus();
}

// Everything in hand is named, and of what is held only what is new: the coordinator remembers. One task of each
// partial is named again, so that a site hears when its attempt was given up.
PollRequest Site::Request() const {
  PollRequest request;
  request.caller = caller_;
  request.capabilities.version = options_.version;
  request.serves.kind = Serves::Kind::kAny;
  request.want = 0;
  for (const Task& task : queue_) request.working_on.push_back({task.id, false});
  for (const auto& [gather, open] : open_) {
    if (open.told > 0) request.working_on.push_back({open.records[0].task, true});
    for (size_t i = open.told; i < open.records.size(); ++i) request.working_on.push_back({open.records[i].task, true});
  }
  return request;
}

// Who holds something and waits must not be silent for longer than a lease allows.
StatusOr<PollReply> Site::Ask() {
  const Clock::time_point now = Clock::now();
  if (done_ > 0) {
    const std::chrono::duration<double> each = (now - asked_) / static_cast<double>(done_);
    want_ = std::clamp(static_cast<int64_t>(kBetweenPolls / each), options_.least_tasks, options_.most_tasks);
  }
  asked_ = now;
  done_ = 0;
  PollRequest request = Request();
  for (auto& [gather, open] : open_) open.told = open.records.size();
  if (queue_.empty()) {
    request.want = want_;
    request.hold_ms = open_.empty() ? options_.hold_ms : std::min(options_.hold_ms, beat_ms_);
    request.told = told_;
  } else if (std::ssize(queue_) < options_.least_tasks) {
    request.want = options_.least_tasks - std::ssize(queue_);
  }
  RIVULET_ASSIGN_OR_RETURN(PollReply reply, calls_.Poll(request));
  told_ = reply.tasks.empty();
  if (!reply.tasks.empty()) beat_ms_ = std::max<int64_t>(reply.wait_ms, 1);
  return reply;
}

Status Site::Obey(const PollReply& reply) {
  for (const TaskOutcome& outcome : reply.outcomes) {
    const std::optional<TaskName> name = TaskNameOf(outcome.task, options_.run_id);
    if (options_.states == nullptr || !name) continue;
    if (outcome.end != TaskEnd::kFolded) {
      options_.states->Forget(options_.run_id, name->client_id, outcome.task);
    } else if (outcome.durable) {
      options_.states->Durable(options_.run_id, name->client_id, outcome.task);
    }
  }
  for (const TaskId& task : reply.cancelled) RIVULET_RETURN_IF_ERROR(Forget(task, reply));
  for (const HandOver& wanted : reply.hand_over) {
    const auto open = open_.find(wanted.gather);
    const bool whole = open != open_.end() && open->second.records.size() == wanted.tasks.size();
    if (whole) {
      RIVULET_RETURN_IF_ERROR(HandOverPartial(wanted.gather));
      continue;
    }
    open_.erase(wanted.gather);
    for (const TaskId& task : wanted.tasks) RIVULET_RETURN_IF_ERROR(GiveUp(task, "its site has lost its update"));
  }
  return absl::OkStatus();
}

// A task that the coordinator no longer knows has ended otherwise: nothing is left to say.
Status Site::GiveUp(const TaskId& task, std::string_view reason) {
  const Status told = calls_.Fail(caller_, {.task = task, .sentence = std::string(reason)});
  return absl::IsNotFound(told) ? absl::OkStatus() : told;
}

// Nothing can be taken out of a sum whose addends are gone, so a partial goes as a whole; what else was in it ends too,
// lest the coordinator wait for it; but for what the same answer gives anew: a coordinator that was started again knows
// nothing of this partial, and offers the same tasks.
Status Site::Forget(const TaskId& cancelled, const PollReply& reply) {
  std::erase_if(queue_, [&](const Task& task) { return task.id == cancelled; });
  for (auto open = open_.begin(); open != open_.end(); ++open) {
    const std::vector<TaskRecord>& records = open->second.records;
    if (std::none_of(records.begin(), records.end(), [&](const auto& record) { return record.task == cancelled; })) {
      continue;
    }
    const OpenPartial gone = std::move(open->second);
    open_.erase(open);
    for (const TaskRecord& record : gone.records) {
      const auto given = [&](const Task& task) { return task.id == record.task; };
      if (record.task == cancelled || std::ranges::any_of(reply.tasks, given)) continue;
      RIVULET_RETURN_IF_ERROR(GiveUp(record.task, "its update was gathered with one that was cancelled"));
    }
    break;
  }
  return absl::OkStatus();
}

// What was made is sent as one piece, so that it can be sent again; the sums go before that.
StatusOr<SubmitResult> Site::Send(uint64_t gather, OpenPartial open) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes,
                           TakeSitePartial(*open.aggregation, open.base_version, open.records));
  Submission submission;
  submission.kind = Submission::Kind::kPartial;
  submission.gather = gather;
  submission.bytes = std::ssize(bytes);
  BeginBeat(open.records[0].task);
  StatusOr<SubmitResult> result = calls_.Submit(caller_, submission, std::as_bytes(std::span(bytes)));
  if (EndBeat() || result.ok() || stop_.stopped()) return result;
  return SubmitResult{SubmitResult::Kind::kRefused, "its round is over"};
}

Status Site::HandOverPartial(uint64_t gather) {
  OpenPartial open = std::move(open_.extract(gather).mapped());
  std::vector<TaskId> tasks;
  for (const TaskRecord& record : open.records) tasks.push_back(record.task);
  const StatusOr<SubmitResult> result =
      heartbeat_ != nullptr ? Send(gather, std::move(open))
                            : api_.SubmitInPlace(caller_, open.aggregation->Extract(open.base_version), open.records);
  // Accepted, or refused with every task of it; or the run was stopped, and what is resumed trains them again.
  if (result.ok() || absl::IsUnavailable(result.status())) return absl::OkStatus();
  if (stop_.stopped() || absl::IsPermissionDenied(result.status())) return result.status();
  for (const TaskId& task : tasks) RIVULET_RETURN_IF_ERROR(GiveUp(task, Sentence(Message(result.status()))));
  return absl::OkStatus();
}

void Site::BeginBeat(const TaskId& task) {
  if (heartbeat_ != nullptr) heartbeat_->Begin(Request(), task, beat_ms_);
}

bool Site::EndBeat() {
  if (heartbeat_ == nullptr) return true;
  heartbeat_->End();
  const bool alive = !stop_.task_cancelled();
  stop_.BeginTask();  // what ended this task is not to end the next call
  return alive;
}

StatusOr<std::shared_ptr<const Model>> Site::ModelOf(const BlobId& id, const Plan& plan) {
  if (heartbeat_ == nullptr) {
    if (base_ != nullptr && base_digest_ == id.digest) return base_;
    base_.reset();  // a version that nobody needs goes before the next one stays
    StatusOr<std::shared_ptr<const Model>> shared = api_.FetchInPlace(caller_, id);
    if (!absl::IsUnimplemented(shared.status())) {
      RIVULET_ASSIGN_OR_RETURN(base_, std::move(shared));
      base_digest_ = id.digest;
      return base_;
    }
    heartbeat_ = std::make_unique<Heartbeat>(api_, stop_);
  }
  return artifacts_.ModelVersion(id.digest, plan, [&] { return calls_.Fetch(caller_, id); });
}

TaskTrainer::Sources Site::SourcesOf(const Task& task) {
  TaskTrainer::Sources sources;
  // Once a process: whoever comes later finds it among the artifacts.
  sources.plan = [this, plan = task.plan] { return calls_.Fetch(caller_, {BlobId::Form::kBytes, plan}); };
  sources.model = [this](const BlobId& id, const Plan& plan) { return ModelOf(id, plan); };
  sources.blob = [this](const BlobId& id) { return calls_.Fetch(caller_, id); };
  return sources;
}

StatusOr<LocalResult> Site::Train(const Task& task) {
  RIVULET_ASSIGN_OR_RETURN(const BoundData data, data_.Of(task.client_id));
  return trainer_.Train(task, task.client_id, {&data, 1}, SourcesOf(task));
}

bool Site::Changes(const Task& task) const {
  return options_.change != nullptr && task.kind == TaskKind::kTrain && options_.change->Changes(task.client_id);
}

StatusOr<std::vector<float>> Site::DeltaOf(const Task& task, const LocalResult& result) const {
  const AggregationSpec& spec = trainer_.plan().aggregation(task.kind);
  if (result.parts.size() != 1 || result.parts[0].name != "delta" || spec.parts[0].codec != "f32") {
    return FailedPrecondition(
        "'{}' attacks by its update, which must be one difference in float32; choose an algorithm and a codec without "
        "more, or an attack on data",
        task.client_id);
  }
  const PartView& delta = result.parts[0];
  std::vector<float> values;
  const auto take = [&](float value) { values.push_back(value); };
  if (delta.made != nullptr) {
    for (size_t block = 0; block < delta.made->blocks(); ++block) {
      const FloatRun run = delta.made->Make(block);
      EachValue({&run, 1}, take);
    }
  } else if (!delta.runs.empty()) {
    EachValue(delta.runs, take);
  } else {
    values.resize(delta.data.size() / sizeof(float));
    std::memcpy(values.data(), delta.data.data(), values.size() * sizeof(float));
  }
  return values;
}

// What is told beside the update stays as the client's own training had it. Whoever changes an update may have other
// tasks trained, in the same memory, so the values are taken out of it before.
StatusOr<LocalResult> Site::TrainAndChange(const Task& task) {
  RIVULET_ASSIGN_OR_RETURN(LocalResult result, Train(task));
  if (!Changes(task)) return result;
  RIVULET_ASSIGN_OR_RETURN(changed_, DeltaOf(task, result));
  const auto train = [&](const Task& other) -> StatusOr<std::vector<float>> {
    RIVULET_ASSIGN_OR_RETURN(const LocalResult trained, Train(other));
    return DeltaOf(other, trained);
  };
  RIVULET_RETURN_IF_ERROR(options_.change->Change(task, train, changed_));
  changed_run_ = {.values = changed_.data(), .count = std::ssize(changed_)};
  result.parts.assign(1, {.name = "delta", .runs = {&changed_run_, 1}});
  return result;
}

StatusOr<Site::OpenPartial*> Site::Open(const Task& task) {
  const auto found = open_.find(task.gather);
  if (found != open_.end()) return &found->second;
  // What other gatherings hold is asked for or cancelled; those that hold nothing would stay.
  std::erase_if(open_, [](const auto& open) { return open.second.records.empty(); });
  OpenPartial open;
  RIVULET_ASSIGN_OR_RETURN(open.aggregation, Aggregation::Create(trainer_.plan().aggregation(task.kind)));
  open.base_version = task.base_version;
  return &open_.emplace(task.gather, std::move(open)).first->second;
}

StatusOr<TaskReport> Site::Tell(TaskReport::Kind kind, TaskFailure failure, std::string_view reason,
                                TaskReport report) {
  if (stop_.stopped()) return Cancelled("stopped");
  report.kind = kind;
  report.reason = reason;
  failure.sentence = report.reason;
  const Status told = calls_.Fail(caller_, failure);
  if (absl::IsNotFound(told)) {
    report.kind = TaskReport::Kind::kGone;
  } else {
    RIVULET_RETURN_IF_ERROR(told);
  }
  return report;
}

// A task ends in one of three ways: in the partial; with a sentence of whoever folds, as an upload would; or with a
// sentence that says why it cannot be done. Only a site that is being stopped says nothing.
StatusOr<TaskReport> Site::Work(const Task& task) {
  TaskReport report;
  BeginBeat(task.id);
  StatusOr<LocalResult> trained = TrainAndChange(task);
  if (!EndBeat()) {
    report.kind = TaskReport::Kind::kGone;
    report.reason = "the coordinator needs it no longer";
    return stop_.stopped() ? StatusOr<TaskReport>(Cancelled("stopped")) : report;
  }
  if (!trained.ok()) {
    return Tell(TaskReport::Kind::kFailed, FailureOf(task.id, trained.status()), Sentence(Message(trained.status())));
  }
  report.examples = trained->examples;
  report.steps = trained->steps;
  report.train_loss = trained->train_loss;
  report.train_seconds = trained->train_seconds;

  RIVULET_ASSIGN_OR_RETURN(OpenPartial* const open, Open(task));
  TraceSpan folding(options_.instruments.tracer, "phase", "fold");
  folding.Arrow(Tracer::Flow::kEnd, Tracer::kTask, task.id);
  const Clock::time_point begin = Clock::now();
  const StatusOr<Weights> weights = WeightsOf(open->aggregation->spec(), trained->declared, {});
  const StatusOr<Aggregation::Taken> taken =
      weights.ok() ? open->aggregation->Take({task.id, task.base_version, trained->parts, trained->declared}, *weights)
                   : weights.status();
  const double fold_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  folding.End();
  if (!taken.ok()) {
    return Tell(TaskReport::Kind::kRefused, {.task = task.id, .code = TaskFailure::Code::kBadUpdate},
                Message(taken.status()), std::move(report));
  }
  Record(task, *trained, taken->norm, fold_seconds, *open);
  if (!options_.holds) RIVULET_RETURN_IF_ERROR(HandOverPartial(task.gather));
  return report;
}

void Site::Record(const Task& task, LocalResult& trained, double norm, double fold_seconds, OpenPartial& open) {
  TaskRecord& record = open.records.emplace_back();
  record.task = task.id;
  record.examples = trained.examples;
  record.steps = trained.steps;
  record.declared = std::move(trained.declared);
  record.norm = norm;
  record.measured = {trained.train_seconds, fold_seconds};
}

// An update that is refused is told as any other's is; an error before that is of who knows which of them, so each is
// tried by itself, which gives the same bits and the right sentence. The time of a fold holds the making of what is
// folded: the two cannot be told apart.
StatusOr<bool> Site::WorkTogether(std::span<const Task> tasks) {
  std::vector<BoundData> data;
  for (const Task& task : tasks) {
    StatusOr<BoundData> of = data_.Of(task.client_id);
    if (!of.ok()) return false;
    data.push_back(*std::move(of));
  }
  StatusOr<std::vector<LocalResult>> trained = trainer_.TrainTogether(tasks, data, SourcesOf(tasks[0]));
  if (stop_.stopped()) return Cancelled("stopped");
  if (!trained.ok()) return false;

  RIVULET_ASSIGN_OR_RETURN(OpenPartial* const open, Open(tasks[0]));
  std::vector<size_t> whole;
  for (size_t i = 0; i < tasks.size(); ++i) {
    LocalResult& result = (*trained)[i];
    if (result.status.ok() && trainer_.transparent()) {
      result.status = trainer_.Finish(tasks[i], tasks[i].client_id, result);
    }
    if (result.status.ok()) {
      whole.push_back(i);
      continue;
    }
    RIVULET_RETURN_IF_ERROR(
        Tell(TaskReport::Kind::kFailed, FailureOf(tasks[i].id, result.status), Sentence(Message(result.status)))
            .status());
  }
  if (trainer_.transparent()) {
    RIVULET_RETURN_IF_ERROR(FoldTogether(tasks, *trained, whole, *open));
    return true;
  }
  // What happens to an update on its way is done in one place, so each is folded before the next is made.
  for (const size_t& i : whole) {
    LocalResult& result = (*trained)[i];
    if (const Status status = trainer_.Finish(tasks[i], tasks[i].client_id, result); !status.ok()) {
      RIVULET_RETURN_IF_ERROR(
          Tell(TaskReport::Kind::kFailed, FailureOf(tasks[i].id, status), Sentence(Message(status))).status());
      continue;
    }
    RIVULET_RETURN_IF_ERROR(FoldTogether(tasks, *trained, {&i, 1}, *open));
  }
  return true;
}

Status Site::FoldTogether(std::span<const Task> tasks, std::vector<LocalResult>& trained, std::span<const size_t> which,
                          OpenPartial& open) {
  const Clock::time_point begin = Clock::now();
  const auto refuse = [&](const Task& task, const Status& why) {
    return Tell(TaskReport::Kind::kRefused, {.task = task.id, .code = TaskFailure::Code::kBadUpdate}, Message(why))
        .status();
  };
  std::vector<size_t> weighed;
  std::vector<Weights> weights;
  std::vector<UpdateView> updates;
  for (const size_t i : which) {
    const LocalResult& result = trained[i];
    auto weighs = WeightsOf(open.aggregation->spec(), result.declared, {});
    if (!weighs.ok()) {
      RIVULET_RETURN_IF_ERROR(refuse(tasks[i], weighs.status()));
      continue;
    }
    weighed.push_back(i);
    weights.push_back(*std::move(weighs));
    updates.push_back({tasks[i].id, tasks[i].base_version, result.parts, result.declared});
  }
  const std::vector<StatusOr<Aggregation::Taken>> taken = open.aggregation->TakeTogether(updates, weights);
  const std::chrono::duration<double> all = Clock::now() - begin;
  const double fold_seconds = all.count() / static_cast<double>(std::max<size_t>(taken.size(), 1));
  for (size_t k = 0; k < taken.size(); ++k) {
    const size_t i = weighed[k];
    if (taken[k].ok()) {
      Record(tasks[i], trained[i], taken[k]->norm, fold_seconds, open);
    } else {
      RIVULET_RETURN_IF_ERROR(refuse(tasks[i], taken[k].status()));
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
