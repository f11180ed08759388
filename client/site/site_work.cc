// A site's work on its tasks: training, several at once if possible, and aggregation of their updates.
#include <algorithm>
#include <cstring>
#include <utility>

#include "client/site/site.h"
#include "client/training/failure.h"
#include "engine/profile/tracer.h"
#include "federated/plan/download_bounds.h"

namespace rivulet {

// The grouping of tasks affects only this site: the sums are integers. Over a network each task renews its lease
// separately.
std::vector<Task> Site::NextTasks() {
  std::vector<Task> tasks;
  tasks.push_back(std::move(queue_.front()));
  queue_.pop_front();
  if (queue_.empty() || heartbeat_ != nullptr || !options_.holds || Changes(tasks[0])) return tasks;
  if (tasks[0].step > 0 || (options_.identities != nullptr && options_.device.device != nullptr)) return tasks;
  const Task first = tasks[0];
  const NamedBlob* const model = first.input("model");
  const auto data = data_.Of(first.client_id);
  if (!data.ok() || model == nullptr) return tasks;
  int most = 0;  // computed only for a second task: it may compile a program of this size
  int64_t largest = data->size();
  for (auto task = queue_.begin(); (most == 0 || std::ssize(tasks) < most) && task != queue_.end();) {
    const NamedBlob* const base = task->input("model");
    const bool alike = task->step == 0 && !Changes(*task) && task->plan == first.plan && task->kind == first.kind &&
                       task->gather == first.gather && task->base_version == first.base_version && base != nullptr &&
                       base->id.digest == model->id.digest;
    const auto other = alike ? data_.Of(task->client_id) : data;
    const bool of_one_step = alike && other.ok() && other->size() == data->size() && task->numbers == first.numbers;
    if (!alike || !other.ok() || !(of_one_step || trainer_.TakesUnlikeTasks())) {
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

StatusOr<std::shared_ptr<const Model>> Site::ModelOf(const BlobId& id, const Plan& plan) {
  if (heartbeat_ == nullptr) {
    if (base_ != nullptr && base_digest_ == id.digest) return base_;
    base_.reset();  // an unused version is freed before the next one is kept
    StatusOr<std::shared_ptr<const Model>> shared = api_.FetchInPlace(caller_, id);
    if (!absl::IsUnimplemented(shared.status())) {
      RIVULET_ASSIGN_OR_RETURN(base_, std::move(shared));
      base_digest_ = id.digest;
      return base_;
    }
    heartbeat_ = std::make_unique<Heartbeat>(api_, stop_);
  }
  return artifacts_.ModelVersion(id.digest, plan,
                                 [&] { return calls_.Fetch(caller_, id, MaxModelBytes(*plan.layout())); });
}

TaskTrainer::Sources Site::SourcesOf(const Task& task) {
  TaskTrainer::Sources sources;
  // Once per process: later callers find it among the artifacts.
  sources.plan = [this, plan = task.plan] { return calls_.FetchPlan(caller_, plan); };
  sources.base = {[this](const Digest& base, int64_t most, int64_t from, const auto& sink) {
                    return calls_.FetchTo(caller_, {BlobId::Form::kBase, base}, most, from, sink);
                  },
                  [this](int64_t ms) { return stop_.Sleep(ms); }};
  sources.model = [this](const BlobId& id, const Plan& plan) { return ModelOf(id, plan); };
  sources.blob = [this](const BlobId& id, int64_t most) { return calls_.Fetch(caller_, id, most); };
  return sources;
}

// If it stays on the device, an update that is trained alone is aggregated like those trained together: its bits do not
// depend on other tasks.
StatusOr<LocalResult> Site::Train(const Task& task, bool leave) {
  RIVULET_ASSIGN_OR_RETURN(const BoundData data, data_.Of(task.client_id));
  return trainer_.Train(task, task.client_id, {&data, 1}, SourcesOf(task), leave);
}

bool Site::Changes(const Task& task) const {
  return options_.attack != nullptr && task.kind == TaskKind::kTrain && options_.attack->Changes(task.client_id);
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

// The other results stay as the client's own training made them. An attack on an update may train other tasks in the
// same memory, so the values are copied out before.
StatusOr<LocalResult> Site::TrainAndChange(const Task& task) {
  if (!Changes(task)) return Train(task, options_.identities == nullptr);  // words are made on the host
  RIVULET_ASSIGN_OR_RETURN(LocalResult result, Train(task, false));
  RIVULET_ASSIGN_OR_RETURN(changed_, DeltaOf(task, result));
  const auto train = [&](const Task& other) -> StatusOr<std::vector<float>> {
    RIVULET_ASSIGN_OR_RETURN(const LocalResult trained, Train(other, false));
    return DeltaOf(other, trained);
  };
  RIVULET_RETURN_IF_ERROR(options_.attack->Change(task, train, changed_));
  changed_run_ = {.values = changed_.data(), .count = std::ssize(changed_)};
  result.parts.assign(1, {.name = "delta", .runs = {&changed_run_, 1}});
  return result;
}

StatusOr<Site::OpenPartial*> Site::Open(const Task& task) {
  const auto found = open_.find(task.gather);
  if (found != open_.end()) return &found->second;
  // Partial sums of other gatherings are requested or cancelled; empty ones would stay.
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

// A task ends in one of three ways: in the partial sum; refused, with the fold's message, like an upload; or failed,
// with a reason. Only a site that is being stopped reports nothing.
StatusOr<TaskReport> Site::Work(const Task& task) {
  TaskReport report;
  if (task.step > 0) {
    RIVULET_RETURN_IF_ERROR(AnswerStep(task));
    return report;
  }
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
  report.result() = *trained;
  if (SumsInSteps()) {
    RIVULET_RETURN_IF_ERROR(BeginSteps(task, *trained, report));
    return report;
  }

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
  record.result() = trained;
  record.task = task.id;
  record.declared = std::move(trained.declared);
  record.update_norm = norm;
  record.fold_seconds = fold_seconds;
}

bool Site::SumsInSteps() const {
  if (options_.identities == nullptr) return false;
  const StatusOr<const secure::SecureProtocol*> protocol = SecureProtocolOf(trainer_.plan());
  return protocol.ok() && (*protocol)->steps > 1;
}

// Like a deployed client, it trains first, and its half's secrets are drawn once its words exist. An update without
// valid words is a failure of its client, because nothing of it is sent that could be refused.
Status Site::BeginSteps(const Task& task, const LocalResult& trained, TaskReport& report) {
  const Plan& plan = trainer_.plan();
  const auto begin = [&]() -> StatusOr<std::unique_ptr<SecureHalf>> {
    RIVULET_ASSIGN_OR_RETURN(std::string words, SecureWords(plan.aggregation(task.kind), task, trained));
    RIVULET_ASSIGN_OR_RETURN(const auto member, options_.identities->Of(task.client_id));
    return SecureHalf::Create(*member, plan, task, std::move(words));
  };
  StatusOr<std::unique_ptr<SecureHalf>> half = begin();
  if (half.ok()) {
    in_steps_[task.id].half = *std::move(half);
    return AnswerStep(task);
  }
  RIVULET_ASSIGN_OR_RETURN(report, Tell(TaskReport::Kind::kFailed, FailureOf(task.id, half.status()),
                                        Sentence(Message(half.status())), std::move(report)));
  return absl::OkStatus();
}

Status Site::AnswerStep(const Task& task) {
  const auto steps = in_steps_.find(task.id);
  if (steps == in_steps_.end()) return GiveUp(task.id, "its site has lost the secrets of its first steps");
  const NamedBlob* const input = task.input("step");
  if (task.step > 0 && input == nullptr) return absl::OkStatus();  // its attempt is ending
  StatusOr<std::string> answer = [&]() -> StatusOr<std::string> {
    if (task.step == 0) return steps->second.half->Answer(0, "");
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, calls_.Fetch(caller_, input->id, kAnyBytes));
    return steps->second.half->Answer(task.step, bytes);
  }();
  if (!answer.ok()) {
    in_steps_.erase(steps);
    if (absl::IsNotFound(answer.status())) return absl::OkStatus();  // its attempt has ended
    return Tell(TaskReport::Kind::kFailed, FailureOf(task.id, answer.status()), Sentence(Message(answer.status())))
        .status();
  }
  const Submission submission{
      .task = task.id, .step = task.step, .bytes = std::ssize(*answer), .kind = Submission::Kind::kStep};
  const StatusOr<SubmitResult> result =
      calls_.Submit(caller_, submission, std::make_shared<const std::string>(*std::move(answer)));
  steps->second.answered = task.step;
  const bool ends = task.step == steps->second.half->steps() - 1;
  if (!result.ok() || result->kind == SubmitResult::Kind::kRefused || ends) in_steps_.erase(steps);
  // A task that the coordinator no longer knows has ended otherwise.
  return result.ok() || absl::IsNotFound(result.status()) ? absl::OkStatus() : result.status();
}

// A refused update is reported like any other. An earlier error cannot be assigned to a task, so each is tried alone,
// which gives the same bits and the right message. The fold's time includes the making of the folded values: the two
// cannot be separated.
StatusOr<bool> Site::WorkTogether(std::span<const Task> tasks) {
  std::vector<BoundData> data;
  for (const Task& task : tasks) {
    StatusOr<BoundData> of = data_.Of(task.client_id);
    if (!of.ok()) return false;
    data.push_back(*std::move(of));
  }
  Tracer* const tracer = options_.instruments.tracer;
  const int64_t begin = tracer == nullptr ? 0 : ProfileNanos();
  const std::string clients = tracer == nullptr ? std::string() : fmt::format("{} clients", tasks.size());
  TraceSpan together(tracer, "task", clients);
  TraceSpan training(tracer, "phase", "train");
  for (const Task& task : tasks) training.Arrow(Tracer::Flow::kStep, Tracer::kTask, task.id);
  StatusOr<std::vector<LocalResult>> trained = trainer_.TrainTogether(tasks, data, SourcesOf(tasks[0]));
  training.End();
  if (stop_.stopped()) return Cancelled("stopped");
  if (!trained.ok()) return false;

  const bool in_steps = SumsInSteps();
  OpenPartial none;
  OpenPartial* open = &none;
  if (!in_steps) {
    RIVULET_ASSIGN_OR_RETURN(open, Open(tasks[0]));
  }
  TraceSpan folding(tracer, "phase", "fold");
  for (const Task& task : tasks) folding.Arrow(Tracer::Flow::kEnd, Tracer::kTask, task.id);
  // The reported end of each. A result's own status cannot give it: a failed task and a refused update have an error
  // alike.
  std::vector<TaskReport> reports(tasks.size());
  const auto traced = [&] {
    folding.End();
    for (size_t i = 0; tracer != nullptr && i < tasks.size(); ++i) {
      TraceTogether(*tracer, tasks[i], (*trained)[i], reports[i], begin);
    }
  };
  const auto fail = [&](size_t i, const Status& why) -> Status {
    RIVULET_ASSIGN_OR_RETURN(reports[i],
                             Tell(TaskReport::Kind::kFailed, FailureOf(tasks[i].id, why), Sentence(Message(why))));
    return absl::OkStatus();
  };
  std::vector<size_t> good;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if ((*trained)[i].status.ok()) {
      good.push_back(i);
    } else {
      RIVULET_RETURN_IF_ERROR(fail(i, (*trained)[i].status));
    }
  }
  // Results of the pipeline may be in memory that the next ones use.
  for (std::span<const size_t> left = good; !left.empty();) {
    const auto group = left.first(std::min(left.size(), trainer_.MostTogether()));
    left = left.subspan(group.size());
    trainer_.PrepareTogether(*trained, group);
    std::vector<size_t> whole;
    for (const size_t i : group) {
      LocalResult& result = (*trained)[i];
      result.status = trainer_.Finish(tasks[i], tasks[i].client_id, result, i);
      if (result.status.ok()) {
        whole.push_back(i);
      } else {
        RIVULET_RETURN_IF_ERROR(fail(i, result.status));
      }
    }
    RIVULET_RETURN_IF_ERROR(FoldTogether(tasks, *trained, whole, *open, reports));
  }
  traced();
  return true;
}

Status Site::FoldTogether(std::span<const Task> tasks, std::vector<LocalResult>& trained, std::span<const size_t> which,
                          OpenPartial& open, std::span<TaskReport> reports) {
  if (SumsInSteps()) {
    for (const size_t i : which) RIVULET_RETURN_IF_ERROR(BeginSteps(tasks[i], trained[i], reports[i]));
    return absl::OkStatus();
  }
  const Clock::time_point begin = Clock::now();
  const auto refuse = [&](size_t i, const Status& why) -> Status {
    RIVULET_ASSIGN_OR_RETURN(
        reports[i],
        Tell(TaskReport::Kind::kRefused, {.task = tasks[i].id, .code = TaskFailure::Code::kBadUpdate}, Message(why)));
    return absl::OkStatus();
  };
  std::vector<size_t> weighed;
  std::vector<Weights> weights;
  std::vector<UpdateView> updates;
  for (const size_t i : which) {
    const LocalResult& result = trained[i];
    auto weighs = WeightsOf(open.aggregation->spec(), result.declared, {});
    if (!weighs.ok()) {
      RIVULET_RETURN_IF_ERROR(refuse(i, weighs.status()));
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
      RIVULET_RETURN_IF_ERROR(refuse(i, taken[k].status()));
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
