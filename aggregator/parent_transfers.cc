// Transfers with the parent, on a thread of their own: models and plans down, partial sums up.
#include <algorithm>
#include <thread>

#include "aggregator/aggregator.h"
#include "aggregator/blobs.h"
#include "federated/secure/messages.h"
#include "federated/updates/site_partial_bytes.h"

namespace rivulet {

void Aggregator::TransferLoop() {
  CoordinatorCalls calls(parent_, stop_, options_.calls);
  for (;;) {
    Errand errand;
    {
      MutexLock lock(mutex_);
      while (errands_.empty() && !ended_) changed_.Wait(mutex_);
      if (ended_) return;
      errand = std::move(errands_.front());
      errands_.pop_front();
    }
    if (const Status done = errand(calls); !done.ok()) End(done);
  }
}

void Aggregator::FailUp(TaskFailure failure) {
  Erase(failure.task);
  failure.sentence.clear();
  errands_.push_back([this, failure = std::move(failure)](CoordinatorCalls& calls) -> Status {
    Caller caller;
    {
      MutexLock lock(mutex_);
      caller = Request().caller;
    }
    const Status told = calls.Fail(caller, failure);
    return absl::IsNotFound(told) ? absl::OkStatus() : told;
  });
  changed_.NotifyAll();
}

// What all tasks of a round name is here once, before any client hears of its task. What cannot be had is not begun;
// the parent gives the task again as long as its client calls.
Status Aggregator::FetchFor(CoordinatorCalls& calls, const TaskId& task) {
  std::vector<BlobId> blobs;
  Digest plan;
  Caller caller;
  std::string client_id;
  bool keep;
  int step;
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.stage != Job::Stage::kFetched) return absl::OkStatus();
    step = job->second.task.step;
    plan = job->second.task.plan;
    client_id = job->second.task.client_id;
    keep = job->second.task.keep;
    blobs.push_back({BlobId::Form::kBytes, plan});
    for (const NamedBlob& input : job->second.task.inputs) {
      if (input.id.form != BlobId::Form::kState) blobs.push_back(input.id);
    }
    caller = Request().caller;
  }
  for (const BlobId& blob : blobs) {
    {
      MutexLock lock(mutex_);
      if (blobs_.contains(KeyOf(blob))) continue;
    }
    StatusOr<std::string> fetched = FetchBlob(calls, caller, plan, blob, step);
    if (absl::IsCancelled(fetched.status()) || absl::IsPermissionDenied(fetched.status())) return fetched.status();
    StatusOr<AggregatorPlan> read = AggregatorPlan{};
    const bool is_plan = blob == blobs[0];
    if (fetched.ok() && is_plan) read = options_.read_plan(*fetched);
    if (!fetched.ok() || !read.ok()) {
      const Status& why = fetched.ok() ? read.status() : fetched.status();
      Tell("warning", fmt::format("task '{}' cannot be forwarded: {}", task, Message(why)));
      MutexLock lock(mutex_);
      // Announced beyond its bound, the same would be announced again.
      if (fetched.ok() || absl::IsInvalidArgument(fetched.status())) {
        FailUp({.task = task, .code = is_plan ? TaskFailure::Code::kBadPlan : TaskFailure::Code::kBadModel});
      } else if (absl::IsResourceExhausted(fetched.status())) {
        FailUp({.task = task, .code = TaskFailure::Code::kNotWilling, .subject = "memory"});
      } else {
        Erase(task);
      }
      return absl::OkStatus();
    }
    MutexLock lock(mutex_);
    if (is_plan) plans_.insert_or_assign(plan, *std::move(read));
    blobs_.insert_or_assign(KeyOf(blob), std::make_shared<const std::string>(*std::move(fetched)));
  }
  const bool kept = keep && PersistedOf(client_id).Has(task);  // the disk is not looked at under the lock
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(task);
    // Meanwhile it may have been given up and brought all the same.
    if (job == jobs_.end() || job->second.stage != Job::Stage::kFetched || job->second.task.step != step) {
      return absl::OkStatus();
    }
    job->second.kept = kept;
    job->second.stage = job->second.kept ? Job::Stage::kFolding : Job::Stage::kOffered;
    ForgetBlobs();
    if (!job->second.kept) {
      News(client_id);
      return absl::OkStatus();
    }
  }
  return CountKept(task);
}

// The plan comes first, and says how long the others may be. Tasks of many versions together are bounded too: what is
// kept already counts.
StatusOr<std::string> Aggregator::FetchBlob(CoordinatorCalls& calls, const Caller& caller, const Digest& plan,
                                            const BlobId& blob, int step) {
  int64_t most = options_.calls.max_plan_bytes, kept = 0;
  {
    MutexLock lock(mutex_);
    if (blob != BlobId{BlobId::Form::kBytes, plan}) {
      const auto known = plans_.find(plan);
      if (known == plans_.end()) return NotFound("the plan of its task was removed");
      most = blob.form == BlobId::Form::kModel ? known->second.most_model_bytes : known->second.most_broadcast_bytes;
      constexpr auto kMost = static_cast<size_t>(secure::kMostMembers);
      if (step > 0 && blob.form != BlobId::Form::kModel) {
        most = std::max(most, static_cast<int64_t>(secure::MostInputBytes(step, kMost, kMost)));
      }
    }
    for (const auto& [key, bytes] : blobs_) kept += std::ssize(*bytes);
  }
  const int64_t room = options_.calls.max_download_bytes - kept;
  if (most <= room) return calls.Fetch(caller, blob, most);
  StatusOr<std::string> fetched = calls.Fetch(caller, blob, std::max<int64_t>(room, 0));
  if (!absl::IsInvalidArgument(fetched.status())) return fetched;
  return ResourceExhausted("{} bytes are kept for other tasks, and this aggregator's memory allows {}; {}", kept,
                           options_.calls.max_download_bytes, Message(fetched.status()));
}

void Aggregator::ForgetBlobs() {
  std::set<std::string> named;
  std::set<Digest> plans;
  for (const auto& [id, job] : jobs_) {
    plans.insert(job.task.plan);
    named.insert(KeyOf({BlobId::Form::kBytes, job.task.plan}));
    for (const NamedBlob& input : job.task.inputs) named.insert(KeyOf(input.id));
  }
  std::erase_if(blobs_, [&](const auto& blob) { return !named.contains(blob.first); });
  std::erase_if(plans_, [&](const auto& plan) { return !plans.contains(plan.first); });
}

// Answered, it is the parent's, who gives what it refused again; unanswered, it is offered to the same clients again.
Status Aggregator::Bring(CoordinatorCalls& calls, uint64_t gather, Gathering& gathering) {
  Caller caller;
  {
    MutexLock lock(mutex_);
    caller = Request().caller;
  }
  const std::unique_ptr<Aggregation> aggregation = gathering.pot->Close();
  StatusOr<SubmitResult> result = SubmitResult{};
  if (StatusOr<std::string> bytes = TakeSitePartial(*aggregation, gathering.base_version, gathering.records);
      bytes.ok()) {
    Submission submission;
    submission.kind = Submission::Kind::kPartial;
    submission.gather = gather;
    submission.bytes = std::ssize(*bytes);
    result = calls.Submit(caller, submission, std::make_shared<const std::string>(*std::move(bytes)));
  } else {
    result = bytes.status();
  }
  if (absl::IsCancelled(result.status()) || absl::IsPermissionDenied(result.status())) return result.status();
  const bool refused = result.ok() && result->kind == SubmitResult::Kind::kRefused;
  if (!result.ok() || refused) {
    Tell("warning", fmt::format("the partial sum of {} updates is lost: {}", gathering.records.size(),
                                refused ? result->reason : std::string(Message(result.status()))));
  }
  MutexLock lock(mutex_);
  for (const TaskRecord& record : gathering.records) {
    const auto job = jobs_.find(record.task);
    if (job == jobs_.end()) continue;
    if (result.ok()) {
      Erase(record.task);
    } else {
      OfferAgain(job->second);
    }
  }
  return absl::OkStatus();
}

}  // namespace rivulet
