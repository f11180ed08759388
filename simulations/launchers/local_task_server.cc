#include "simulations/launchers/local_task_server.h"

#include <algorithm>
#include <utility>

#include "federated/transport/blob_reader.h"

namespace rivulet {
namespace {

constexpr int64_t kUntilWoken = 60'000;  // ms

}  // namespace

StatusOr<LocalTaskServer::Done> LocalTaskServer::Do(std::vector<Task> tasks) {
  MutexLock lock(mutex_);
  left_ = tasks.size();
  for (Task& task : tasks) {
    gather_[task.id] = task.gather;
    Open& open = open_[task.gather];
    open.gathering = {task.gather, task.kind, task.base_version};
    if (open.aggregation == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(open.aggregation, Aggregation::Create(plan_.aggregation(task.kind)));
    }
    queue_.push_back(std::move(task));
  }
  News();
  while (left_ > 0 && !over_) news_.Wait(mutex_);
  if (over_) return error_.ok() ? Cancelled("stopped") : error_;
  Done done;
  for (auto& [gather, open] : open_) {
    if (open.records.empty()) continue;
    done.folded[gather] = {open.aggregation->Extract(open.gathering.base_version), std::move(open.records)};
  }
  done.failures = std::exchange(failures_, {});
  open_.clear();
  gather_.clear();
  return done;
}

void LocalTaskServer::End(const Status& status) {
  MutexLock lock(mutex_);
  if (!over_) error_ = status;
  over_ = true;
  News();
}

void LocalTaskServer::News() {
  ++epoch_;
  news_.NotifyAll();
}

StatusOr<PollReply> LocalTaskServer::Poll(const PollRequest& request) {
  MutexLock lock(mutex_);
  PollReply reply;
  for (const TaskProgress& progress : request.working_on) {
    if (!progress.held || training_.erase(progress.task) == 0) continue;
    held_[request.caller.name].push_back(progress.task);
    if (all_trained()) News();
  }
  if (over_) reply.over = PollReply::Over{};
  // Half of an even share, so that no site waits long for the last ones.
  const int64_t share = std::max<int64_t>(std::ssize(queue_) / (2 * std::max(sites_, 1)), 1);
  for (int64_t left = std::min(request.want, share); left > 0 && !queue_.empty() && !over_; --left) {
    training_.insert(queue_.front().id);
    reply.tasks.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (const auto held = held_.find(request.caller.name); held != held_.end() && all_trained()) {
    std::map<uint64_t, std::vector<TaskId>> gathers;
    for (const TaskId& task : held->second) gathers[gather_.at(task)].push_back(task);
    for (auto& [gather, tasks] : gathers) reply.hand_over.push_back({gather, std::move(tasks)});
  }
  reply.wait_ms = kUntilWoken;
  reply.epoch = epoch_;
  return reply;
}

void LocalTaskServer::AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  MutexLock lock(mutex_);
  while (epoch_ == epoch && std::chrono::steady_clock::now() < until) {
    news_.WaitFor(mutex_, until - std::chrono::steady_clock::now());
  }
}

StatusOr<std::unique_ptr<ChunkReader>> LocalTaskServer::Fetch(const Caller&, const BlobId& id, int64_t offset) {
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, inputs_.BytesOf(id));
  if (offset < 0 || offset > std::ssize(bytes)) {
    return OutOfRange("offset {} is not within the {} bytes of blob {}", offset, bytes.size(), id.digest.Hex());
  }
  const auto at = [bytes = std::make_shared<const std::string>(std::move(bytes))](int64_t from) {
    return std::as_bytes(std::span(*bytes)).subspan(static_cast<size_t>(from));
  };
  const int64_t size = std::ssize(at(0));
  return std::make_unique<BlobReader>(Blob{size, at}, offset, nullptr);
}

StatusOr<std::shared_ptr<const Model>> LocalTaskServer::FetchInPlace(const Caller&, const BlobId& blob) {
  return inputs_.ModelOf(blob);
}

StatusOr<std::unique_ptr<ChunkWriter>> LocalTaskServer::Submit(const Caller&, const Submission&) {
  return Unimplemented("a slice takes its sites' folds in place");
}

StatusOr<SubmitResult> LocalTaskServer::SubmitInPlace(const Caller& caller, Partial&& partial,
                                                      std::span<const TaskRecord> records) {
  MutexLock lock(mutex_);
  if (over_ || records.empty()) return SubmitResult{SubmitResult::Kind::kDuplicate, ""};
  const auto gather = gather_.find(records[0].task);
  if (gather == gather_.end()) return NotFound("'{}' submits a task that is not in this step", caller.name);
  Open& open = open_.at(gather->second);
  RIVULET_RETURN_IF_ERROR(open.aggregation->Merge(std::move(partial)));
  for (const TaskRecord& record : records) {
    training_.erase(record.task);
    std::erase(held_[caller.name], record.task);
    open.records.push_back(record);
    --left_;
  }
  if (all_trained()) News();
  return SubmitResult{};
}

Status LocalTaskServer::Fail(const Caller& caller, const TaskFailure& failure) {
  MutexLock lock(mutex_);
  if (!gather_.contains(failure.task)) return NotFound("this step has no task '{}'", failure.task);
  training_.erase(failure.task);
  std::erase(held_[caller.name], failure.task);
  failures_.push_back(failure);
  --left_;
  if (all_trained()) News();
  return absl::OkStatus();
}

}  // namespace rivulet
