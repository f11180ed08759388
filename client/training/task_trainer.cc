#include "client/training/task_trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "client/training/example_steps.h"
#include "client/training/failure.h"
#include "client/training/planned_memory.h"
#include "client/training/task_work.h"
#include "client/training/training_checkpoint.h"
#include "engine/profile/tracer.h"
#include "federated/plan/download_bounds.h"
#include "federated/plan/example_noise.h"

namespace rivulet {

std::string_view Name(TaskReport::Kind kind) {
  switch (kind) {
    case TaskReport::Kind::kAccepted:
      return "accepted";
    case TaskReport::Kind::kDuplicate:
      return "duplicate";
    case TaskReport::Kind::kRefused:
      return "refused";
    case TaskReport::Kind::kFailed:
      return "failed";
    case TaskReport::Kind::kGone:
      return "too late";
    case TaskReport::Kind::kInSteps:
      return "in steps";
  }
  return "";
}

namespace {

bool Trains(const Task& task) { return task.kind == TaskKind::kTrain; }
int64_t RoundOf(const Task& task) { return Trains(task) ? task.base_version + 1 : task.base_version; }
std::string RoundName(const Task& task) {
  return fmt::format("{} {}", Trains(task) ? "round" : "evaluation", RoundOf(task));
}

// Digest of all that a training reads of a client: its records in order, and its state.
StatusOr<Digest> DigestOf(const BoundData& data, const StateBlob& state) {
  Sha256 sha;
  sha.Update("rivulet example data 1").UpdateU64(static_cast<uint64_t>(data.size()));
  std::string record;
  for (int64_t i = 0; i < data.size(); ++i) {
    const int64_t index = data.indices ? (*data.indices)[static_cast<size_t>(i)] : i;
    RIVULET_RETURN_IF_ERROR(data.dataset->Read(index, record));
    sha.UpdateU64(record.size()).Update(record);
  }
  sha.UpdateU64(state.size()).Update(state);
  return std::move(sha).Finish();
}

}  // namespace

void TraceTogether(Tracer& tracer, const Task& task, const LocalResult& result, const TaskReport& report,
                   int64_t begin) {
  std::vector<TraceArg> args = {{"task", std::string_view(task.id)},           {"outcome", Name(report.kind)},
                                {"examples", result.examples.value_or(0)},     {"steps", result.steps.value_or(0)},
                                {"train_loss", result.train_loss.value_or(0)}, {"lanes", result.lanes}};
  if (!report.reason.empty()) args.push_back({"reason", std::string_view(report.reason)});
  tracer.Complete(tracer.Row("clients", task.client_id), "client", RoundName(task), begin, ProfileNanos(), args);
}

StatusOr<TaskReport> TraceTask(Tracer* tracer, std::string_view client_id, const Task& task,
                               const std::function<StatusOr<TaskReport>()>& work) {
  if (tracer == nullptr) return work();
  const TraceRow client = tracer->Row("clients", client_id);
  const int64_t begin = ProfileNanos();
  TraceSpan span(tracer, "task", client_id);
  StatusOr<TaskReport> report = work();
  const std::string_view outcome = report.ok() ? Name(report->kind) : "stopped";
  span.Arg("task", task.id);
  span.Arg("round", RoundOf(task));
  span.Arg("outcome", outcome);
  span.End();
  std::vector<TraceArg> args = {{"task", std::string_view(task.id)}, {"outcome", outcome}};
  if (report.ok()) {
    args.push_back({"examples", report->examples.value_or(0)});
    args.push_back({"steps", report->steps.value_or(0)});
    args.push_back({"train_loss", report->train_loss.value_or(0)});
    args.push_back({"bytes_up", report->bytes_up});
    if (!report->reason.empty()) args.push_back({"reason", std::string_view(report->reason)});
  }
  tracer->Complete(client, "client", RoundName(task), begin, ProfileNanos(), args);
  return report;
}

Status TaskTrainer::FetchBroadcasts(const Task& task, const Plan& plan, const Sources& sources) {
  broadcasts_.clear();
  if (!plan.reads_broadcasts(task.kind)) return absl::OkStatus();
  for (const std::string& name : plan.flat_names().broadcast) {
    const std::string input = fmt::format("{}{}", kBroadcastPrefix, name);
    const NamedBlob* const blob = task.input(input);
    if (blob == nullptr || blob->id.form != BlobId::Form::kBytes) {
      return WithReason(
          InvalidArgument("task {} does not name the '{}' that plan '{}' reads", task.id, input, plan.name()),
          TaskFailure::Code::kBadModel);
    }
    auto fetched =
        plan_->Broadcast(blob->id.digest, [&] { return sources.blob(blob->id, MaxBroadcastBytes(*plan.layout())); });
    if (!fetched.ok()) return WithReason(Annotate(fetched.status(), input), TaskFailure::Code::kBadModel);
    broadcasts_.push_back(*std::move(fetched));
  }
  return absl::OkStatus();
}

const BoundData* FindBound(std::span<const BoundData> bound, std::string_view name) {
  const auto found = std::ranges::find(bound, name, &BoundData::name);
  return found == bound.end() ? nullptr : &*found;
}

std::string NamesOf(std::span<const BoundData> bound) {
  std::string names;
  for (size_t i = 0; i < bound.size(); ++i) {
    names += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == bound.size() ? " and " : ", ", bound[i].name);
  }
  return names;
}

std::vector<DatasetOffer> OffersOf(std::span<const BoundData> bound) {
  std::vector<DatasetOffer> offers;
  for (const BoundData& data : bound) offers.push_back({data.name, data.size(), data.tags});
  return offers;
}

// A plan may need more memory than any machine has; the system would kill such a process without a message. Available
// memory is checked for a plan's first task alone: later it excludes what this trainer has.
Status TaskTrainer::CheckMemory(TaskKind kind, int64_t examples) const {
  const bool ask = available_memory_ != nullptr && trainer_ == nullptr && trainers_ == nullptr;
  if (memory_budget_ == 0 && !ask) return absl::OkStatus();
  const StatusOr<PlannedMemory> planned = PlanMemory(*plan_->programs, kind, examples);
  if (!planned.ok()) return WithReason(planned.status(), TaskFailure::Code::kBadPlan);
  const int64_t most = memory_budget_ > 0 ? memory_budget_ : available_memory_();
  if (planned->total() <= most) return absl::OkStatus();
  const std::string takes = fmt::format("a task of plan '{}' takes {}", plan_->plan->name(), planned->ToString());
  const double megabytes = static_cast<double>(most) / 1e6;
  return WithReason(memory_budget_ > 0 ? FailedPrecondition("{}; this site allows it {:.1f} MB (three quarters of "
                                                            "budget.memory_megabytes)",
                                                            takes, megabytes)
                                       : FailedPrecondition("{}; {:.1f} MB are available here", takes, megabytes),
                    TaskFailure::Code::kNotWilling, "memory");
}

StatusOr<LocalResult> TaskTrainer::Train(const Task& task, std::string_view client_id, std::span<const BoundData> bound,
                                         const Sources& sources, bool leave) {
  Tracer* const tracer = instruments_.tracer;
  TraceSpan fetching(tracer, "phase", "fetch");
  // A trainer is kept from task to task: its buffers and programs are those of the plan.
  if (trainer_ == nullptr || plan_->plan->digest() != task.plan) {
    auto artifacts = artifacts_.Plan(task.plan, sources.plan, sources.base);
    if (!artifacts.ok()) return WithReason(artifacts.status(), TaskFailure::Code::kBadPlan);
    trainer_.reset();  // its buffers are freed before the next one's are allocated
    plan_ = *std::move(artifacts);
  }
  const Plan& plan = *plan_->plan;
  if (plan.program(task.kind) == nullptr) {
    return WithReason(
        Unimplemented("task {} is to {}, and plan '{}' does not say how", task.id, Name(task.kind), plan.name()),
        TaskFailure::Code::kUnimplemented, fmt::format("how to {}", Name(task.kind)));
  }
  // A plan names its data set, and the client's own configuration binds it; a plan cannot access
  // another.
  const BoundData* const found = FindBound(bound, plan.dataset());
  if (found == nullptr) {
    return WithReason(FailedPrecondition("plan '{}' trains on data set '{}', but this client has bound {}", plan.name(),
                                         plan.dataset(), NamesOf(bound)),
                      TaskFailure::Code::kNoExamples, plan.dataset());
  }
  const BoundData& data = *found;
  RIVULET_RETURN_IF_ERROR(CheckMemory(task.kind, data.size()));
  StateBlob state;
  if (Reads(task)) {
    RIVULET_ASSIGN_OR_RETURN(state, ReadStateOf(task, client_id));
  }
  const NamedBlob* const model = task.input("model");
  if (model == nullptr || model->id.form != BlobId::Form::kModel) {
    return WithReason(
        InvalidArgument("task {} names no model to start from; is the coordinator newer than this client?", task.id),
        TaskFailure::Code::kBadModel);
  }
  base_.reset();  // an unused version is freed before the next one arrives
  auto fetched = sources.model(model->id, plan);
  if (!fetched.ok()) return WithReason(fetched.status(), TaskFailure::Code::kBadModel);
  base_ = *std::move(fetched);
  RIVULET_RETURN_IF_ERROR(FetchBroadcasts(task, plan, sources));
  if (trainer_ == nullptr) {
    auto pipeline = UpdatePipeline::Create(plan);
    if (!pipeline.ok()) {
      return WithReason(pipeline.status(), TaskFailure::Code::kUnimplemented, "the plan's processing of updates");
    }
    pipeline_ = *std::move(pipeline);
    RIVULET_ASSIGN_OR_RETURN(trainer_, NewTrainer());
  }
  if (const Status room = trainer_->CheckRoom(task.kind, data.size()); !room.ok()) {
    return WithReason(room, TaskFailure::Code::kNotWilling, "memory of its device");
  }
  const DatasetExamples examples(plan_->examples->Of(data.dataset), data.indices);
  fetching.End();
  TraceSpan training(tracer, "phase", "train");
  training.Arrow(Tracer::Flow::kStep, Tracer::kTask, task.id);
  std::vector<const AlignedBuffer*> broadcasts;
  for (const auto& broadcast : broadcasts_) broadcasts.push_back(broadcast.get());
  LaneTask lane{&task, client_id, base_.get(), &examples, state, broadcasts};
  std::optional<privacy::NoiseKey> example_key;
  if (ExampleNoiseOf(plan)) {
    RIVULET_ASSIGN_OR_RETURN(example_key, BeginExamples(task, client_id, data, state));
    lane.example_key = &*example_key;
  }
  if (Reads(task)) lane.beside = pipeline_->Begin();
  if (checkpoint_ != nullptr && task.kind == TaskKind::kTrain) {
    checkpoint_->Begin(WorkOf(task), data.size());
    lane.checkpoint = checkpoint_;
  }
  LeaveParts(leave, task.kind);
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer_->Train({&lane, 1}, stop_.token()));
  if (releases_steps_) trainer_->ReleaseSteps();
  LocalResult& result = results[0];
  if (Reads(task) && absl::IsDataLoss(result.status)) {
    result.status = WithReason(result.status, TaskFailure::Code::kBadModel, kStateSubject);
  }
  RIVULET_RETURN_IF_ERROR(result.status);
  RIVULET_RETURN_IF_ERROR(Finish(task, client_id, result, 0));
  training.Arg("examples", result.examples.value_or(0));
  training.Arg("steps", result.steps.value_or(0));
  training.Arg("train_loss", result.train_loss.value_or(0));
  return std::move(result);
}

StatusOr<StateBlob> TaskTrainer::ReadStateOf(const Task& task, std::string_view client_id) const {
  if (states_ == nullptr) {
    return WithReason(
        FailedPrecondition("plan '{}' has clients keep something from task to task, for which there is no place here",
                           plan().name()),
        TaskFailure::Code::kNotWilling, kStateSubject);
  }
  states_->Expect(MaxStateBytes(plan()));
  auto kept = states_->Read(task.run_id, client_id, task.state_of);
  if (!kept.ok()) return WithReason(kept.status(), TaskFailure::Code::kBadModel, kStateSubject);
  return *std::move(kept);
}

StatusOr<std::unique_ptr<Trainer>> TaskTrainer::NewTrainer() const {
  if (trainers_ != nullptr && ExampleNoiseOf(plan())) {
    return WithReason(Unimplemented("plan '{}' protects single examples (privacy.unit = \"example\"), which devices "
                                    "beside the host do not; train it on the host, without --device",
                                    plan().name()),
                      TaskFailure::Code::kUnimplemented, "privacy of examples on a device");
  }
  if (trainers_ != nullptr) return trainers_(plan_->programs, instruments_.steps);
  return Trainer::Create(plan_->programs, instruments_.steps);
}

// An evaluation of the examples would have no noise.
StatusOr<privacy::NoiseKey> TaskTrainer::BeginExamples(const Task& task, std::string_view client_id,
                                                       const BoundData& data, const StateBlob& state) const {
  if (task.kind != TaskKind::kTrain) {
    return WithReason(
        FailedPrecondition("plan '{}' protects single examples, so no version is measured on them", plan().name()),
        TaskFailure::Code::kNotWilling, "noise of measurements");
  }
  if (example_keys_ != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const Digest digest, DigestOf(data, state));
    return example_keys_(task, client_id, plan(), {.examples = data.size(), .digest = digest});
  }
  const std::optional<ExampleNoise> noise = ExampleNoiseOf(plan());
  if (noise->seeded && noise->epsilon == 0) return SeededExampleKey(task);
  return WithReason(FailedPrecondition("plan '{}' protects single examples, and this program keeps no account of their "
                                       "privacy; train with rivulet-client, or simulate without ranks and workers",
                                       plan().name()),
                    TaskFailure::Code::kNotWilling, "privacy of examples");
}

// Only the mean is folded wherever the values are; other rules read them.
void TaskTrainer::LeaveParts(bool may, TaskKind kind) {
  left_ = trainer_->LeaveParts(may && kind == TaskKind::kTrain && plan().aggregation(kind).rule == "mean");
}

Status TaskTrainer::Encode(const Task& task, LocalResult& result, size_t lane) {
  if (task.kind != TaskKind::kTrain || transparent()) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(result.parts, pipeline_->Apply(task, result.parts, result.declared, lane));
  return absl::OkStatus();
}

// The codecs' error feedback is complete by now, whether the pipeline or a device encoded.
Status TaskTrainer::Finish(const Task& task, std::string_view client_id, LocalResult& result, size_t lane) {
  RIVULET_RETURN_IF_ERROR(Encode(task, result, lane));
  if (!Keeps(task)) return absl::OkStatus();
  if (const auto left_out = pipeline_->kept(lane); !left_out.empty()) AddToState(result.state, left_out);
  return states_->Propose(task.run_id, client_id, task.id, std::move(result.state));
}

size_t TaskTrainer::MostTogether() const {
  return transparent() ? std::numeric_limits<size_t>::max() : pipeline_->MostTogether();
}

void TaskTrainer::PrepareTogether(std::span<const LocalResult> results, std::span<const size_t> which) {
  if (transparent()) return;
  std::vector<std::span<const PartView>> updates;
  for (const size_t i : which) updates.emplace_back(results[i].parts);
  pipeline_->MeasureTogether(updates);
}

// An observer of tasks on the host wants to see each; on a device it sees lanes. On the host, stages of the
// pipeline would need all updates in memory; on a device they run there, or each update is copied from
// there.
int TaskTrainer::MostLanes(const Task& task, int64_t examples) const {
  if (trainer_ == nullptr || plan_->plan->digest() != task.plan || ExampleNoiseOf(plan())) return 1;
  if (!trainer_->TakesUnlikeTasks() && instruments_.tracer != nullptr) return 1;
  const bool in_fold = pipeline_->transparent() || pipeline_->scales();
  if (!trainer_->TakesUnlikeTasks() && (!in_fold || plan_->plan->keeps_state())) return 1;
  return trainer_->MostLanes(task.kind, examples);
}

StatusOr<std::vector<LocalResult>> TaskTrainer::TrainTogether(std::span<const Task> tasks,
                                                              std::span<const BoundData> data, const Sources& sources) {
  const NamedBlob* const model = tasks[0].input("model");
  if (model == nullptr || trainer_ == nullptr) return FailedPrecondition("these tasks are trained one by one");
  const Plan& plan = *plan_->plan;
  base_.reset();  // an unused version is freed before the next one arrives
  RIVULET_ASSIGN_OR_RETURN(base_, sources.model(model->id, plan));
  RIVULET_RETURN_IF_ERROR(FetchBroadcasts(tasks[0], plan, sources));
  std::vector<const AlignedBuffer*> broadcasts;
  for (const auto& broadcast : broadcasts_) broadcasts.push_back(broadcast.get());
  std::vector<DatasetExamples> examples;
  std::vector<StateBlob> states;
  examples.reserve(tasks.size());
  states.reserve(tasks.size());
  std::vector<LaneTask> lanes;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (plan.dataset() != data[i].name) {
      return FailedPrecondition("plan '{}' trains on another data set", plan.name());
    }
    examples.emplace_back(plan_->examples->Of(data[i].dataset), data[i].indices);
    states.emplace_back();
    if (Reads(tasks[i])) {
      RIVULET_ASSIGN_OR_RETURN(states.back(), ReadStateOf(tasks[i], tasks[i].client_id));
    }
    lanes.push_back({&tasks[i], tasks[i].client_id, base_.get(), &examples.back(), states.back(), broadcasts});
    if (Reads(tasks[i])) lanes.back().beside = pipeline_->Begin(i);
  }
  LeaveParts(true, tasks[0].kind);
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer_->Train(lanes, stop_.token()));
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (!Reads(tasks[i]) || !absl::IsDataLoss(results[i].status)) continue;
    results[i].status = WithReason(results[i].status, TaskFailure::Code::kBadModel, kStateSubject);
  }
  return results;
}

}  // namespace rivulet
