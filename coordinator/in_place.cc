// Sites of this process: their partial sums arrive without a message, and they wait to be woken.
#include <cmath>

#include "coordinator/rounds.h"
#include "engine/profile/tracer.h"
#include "federated/updates/task_columns.h"

namespace rivulet {
namespace {

std::optional<double> Finite(const Scalars& scalars, const std::string& name) {
  const auto found = scalars.find(name);
  return found == scalars.end() || !std::isfinite(found->second) ? std::nullopt : std::optional(found->second);
}

}  // namespace

// A site passes the epoch of its last answer, so news between that answer and this call ends the wait at
// once.
void Rounds::AwaitWork(uint64_t epoch, int64_t timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  MutexLock lock(mutex_);
  while (epoch_ == epoch) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    work_.WaitFor(mutex_, left);
  }
}

void Rounds::SetListener(NewsListener* listener) {
  MutexLock lock(mutex_);
  listener_ = listener;
}

// An update's weight may depend on its task's numbers, which its client declares again: these must be the same. The
// machine reports tasks that have ended otherwise.
Status Rounds::CheckNumbers(const TaskId& task, const Scalars& declared) const {
  const Lease* const lease = number_rule_ == nullptr ? nullptr : machine_.FindLease(task);
  if (lease == nullptr || lease->resolved() || lease->kind != TaskKind::kTrain) return absl::OkStatus();
  for (const auto& [name, brought] : number_rule_->Of(*versions_.Of(lease->base_round)->numbers, lease->client_id)) {
    const auto said = declared.find(name);
    if (said != declared.end() && said->second == brought) continue;
    return InvalidArgument("the update of task '{}' does not declare its task's number '{}', {}", task, name, brought);
  }
  return absl::OkStatus();
}

void Rounds::Record(Attempt& attempt, const TaskRecord& record) {
  TaskEntry& entry = attempt.tasks.at(record.task);
  CopyStated(record, entry);
  ReadDeclared(record.declared, entry);
  entry.fold_seconds.reset();  // included in the attempt's aggregate_seconds, as for every task
  if (attempt.kind == TaskKind::kEvaluate) {
    // It was aggregated, so it has measures.
    if (auto measures = MeasuresOf(parts_.evaluation, record.declared); measures.ok())
      entry.measures = *std::move(measures);
    if (const std::optional<TaskName> name = TaskNameOf(record.task, run_id_); parts_.measures_state && name) {
      entry.measures[kPersonalTrained] = Measure::Rate(states_.HadOwn(name->client_id, attempt.round) ? 1 : 0, 1);
    }
    entry.train_loss.reset();
    entry.update_norm.reset();
    return;
  }
  // It was aggregated with these weights, so they exist.
  const StatusOr<Weights> weights = WeightsOf(parts_.aggregation, record.declared, {});
  if (weights.ok()) entry.weight = weights->parts.at(0) >> parts_.aggregation.weight_fraction_bits;
  for (const std::string& name : parts_.declared) {
    if (const auto said = Finite(record.declared, name)) entry.measures[fmt::format("train/{}", name)] = {*said};
  }
}

// The machine accepts all tasks of a partial sum or none, and keeps the attempt open while it is added, without
// the coordinator's lock. Partial sums of one attempt follow one another; the first is moved in as the
// aggregate.
StatusOr<SubmitResult> Rounds::MergePartial(const std::string& site, Partial&& partial,
                                            std::span<const TaskRecord> records, bool kept) {
  PartialReported reported{site, {}, kept};
  reported.tasks.reserve(records.size());
  for (const TaskRecord& record : records) reported.tasks.push_back(record.task);
  Event event(std::move(reported));
  std::vector<TaskId>& tasks = std::get<PartialReported>(event).tasks;
  std::shared_ptr<Attempt> attempt;
  StatusOr<SubmitResult> result = SubmitResult{};
  {
    MutexLock lock(mutex_);
    TickIfDue();
    if (!tasks.empty()) attempt = AttemptOf(tasks[0]);
    if (attempt != nullptr && attempt->kind == TaskKind::kEvaluate) {
      for (const TaskRecord& record : records)
        RIVULET_RETURN_IF_ERROR(MeasuresOf(parts_.evaluation, record.declared).status());
    }
    for (const TaskRecord& record : records) RIVULET_RETURN_IF_ERROR(CheckNumbers(record.task, record.declared));
    for (const Action& action : Feed(event)) {
      const auto* refusal = std::get_if<Refuse>(&action);
      if (refusal == nullptr) continue;
      if (refusal->why == Refuse::Why::kUnknown) {
        result = NotFound("{}", refusal->reason);
      } else if (refusal->why == Refuse::Why::kBusy || machine_.phase() == RunMachine::Phase::kStopped) {
        result = Unavailable("{}", refusal->reason);
      } else if (refusal->why == Refuse::Why::kDuplicate) {
        result = SubmitResult{SubmitResult::Kind::kDuplicate, ""};
      } else {
        result = SubmitResult{SubmitResult::Kind::kRefused, refusal->reason};
      }
      attempt = nullptr;
    }
  }
  if (attempt != nullptr) {
    TraceSpan merging(options_.tracer, "phase", "merge");
    merging.Arg("updates", static_cast<int64_t>(tasks.size()));
    double fold_seconds = 0;
    for (const TaskRecord& record : records) fold_seconds += record.fold_seconds.value_or(0);
    const Status merged = attempt->accumulator->Merge(std::move(partial), fold_seconds);
    merging.End();
    if (!merged.ok()) result = SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(merged))};
    MutexLock lock(mutex_);
    if (merged.ok() && attempt->open) {
      for (const TaskRecord& record : records) Record(*attempt, record);
    }
    Feed(Merged{std::move(tasks), merged.ok(), result->reason});
    TellProgress();
  }
  events_.Drain();
  return result;
}

}  // namespace rivulet
