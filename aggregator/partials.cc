// Aggregators that call this one, and the partials that they bring: staged and read as a coordinator does, and merged
// into this aggregator's own.
#include "aggregator/aggregator.h"

namespace rivulet {

// A process of an aggregator that was started again knows nothing of what the one before it had.
Status Aggregator::AdmitAggregator(const PollRequest& request, std::string* event) {
  const Caller& caller = request.caller;
  RIVULET_RETURN_IF_ERROR(intake_.distrusted().Check(caller));
  if (members_.contains(caller.name) || caller.name == options_.name) {
    return PermissionDenied("'{}' is the name of a client, or of the aggregator that it calls; give it another",
                            caller.name);
  }
  RIVULET_ASSIGN_OR_RETURN(const AggregatorSessions::Came came, below_.Admit(caller));
  if (came == AggregatorSessions::Came::kInPlace) {
    for (auto& [task, job] : jobs_) {
      if (job.stage == Job::Stage::kGiven && WayOf(job.task.client_id) == caller.name) OfferAgain(job);
    }
  }
  if (came == AggregatorSessions::Came::kNew) *event = fmt::format("aggregator '{}' has joined", caller.name);
  return absl::OkStatus();
}

StatusOr<Intake::Begun> Aggregator::BeginPartial(const Caller& caller, const Submission& submission) {
  RIVULET_RETURN_IF_ERROR(intake_.distrusted().Check(caller));
  const Task* one = nullptr;
  for (const auto& [task, job] : jobs_) {
    const bool here = job.task.gather == submission.gather && job.stage > Job::Stage::kFetched;
    if (here && WayOf(job.task.client_id) == caller.name) {
      one = &job.task;
      break;
    }
  }
  if (one == nullptr || !plans_.contains(one->plan)) {
    return RefusedWriter("its round is closed and has the updates that arrived in time");
  }
  if (ProtocolOf(*one) != nullptr) return BeginSummedWords(caller, submission, *one);
  const AggregationSpec& spec = plans_.at(one->plan).of(one->kind);
  if (std::string why = WrongSize("a partial", submission.bytes, MostSitePartialBytes(spec)); !why.empty()) {
    return RefusedWriter(std::move(why));
  }
  return intake_.BeginPartial(fmt::format("partial sum {} of aggregator {}", submission.gather, caller.name), caller,
                              submission, spec, one->base_version,
                              [this, caller, task = *one](StatusOr<SitePartial> site, std::span<const std::byte>,
                                                          const Intake::Release& release) {
                                release();
                                return TakePartial(caller, task, std::move(site));
                              });
}

// One that cannot be right is its aggregator's fault and no client's. The tasks that its process has are named to the
// parent no more, which gives them again as soon as their clients are heard of.
StatusOr<SubmitResult> Aggregator::TakePartial(const Caller& caller, const Task& one, StatusOr<SitePartial> site) {
  const auto refused = [](std::string_view reason) {
    return SubmitResult{SubmitResult::Kind::kRefused, std::string(reason)};
  };
  SubmitResult result;
  if (!site.ok()) result = refused(Message(site.status()));
  std::shared_ptr<Gathering> gathering;
  {
    MutexLock lock(mutex_);
    if (site.ok()) {
      for (const TaskRecord& record : site->records) {
        const Job* const job = JobOf(caller, record.task);
        const bool open = job != nullptr && job->task.gather == one.gather &&
                          (job->stage == Job::Stage::kGiven || job->stage == Job::Stage::kOffered);
        if (!open) result = refused(fmt::format("aggregator '{}' has no task '{}'", caller.name, record.task));
      }
    }
    if (result.kind == SubmitResult::Kind::kAccepted) {
      RIVULET_ASSIGN_OR_RETURN(gathering, Open(one));
      ++gathering->folding;
      for (const TaskRecord& record : site->records) jobs_.at(record.task).stage = Job::Stage::kFolding;
    } else {
      std::vector<TaskId> lost;
      for (auto& [task, job] : jobs_) {
        if (job.stage == Job::Stage::kGiven && WayOf(job.task.client_id) == caller.name) lost.push_back(task);
      }
      for (const TaskId& task : lost) {
        if (site.ok()) {
          OfferAgain(jobs_.at(task));
        } else {
          Erase(task);
        }
      }
    }
  }
  if (gathering == nullptr) {
    Tell("warning", fmt::format("the partial sum of aggregator '{}' is refused: {}", caller.name, result.reason));
    return result;
  }
  double fold_seconds = 0;
  for (const TaskRecord& record : site->records) fold_seconds += record.fold_seconds.value_or(0);
  const Status merged = gathering->pot->Merge(std::move(site->partial), fold_seconds);
  MutexLock lock(mutex_);
  --gathering->folding;
  dirty_ = true;
  changed_.NotifyAll();
  const bool wanted = std::ranges::all_of(
      site->records, [&](const TaskRecord& record) REQUIRES(mutex_) { return jobs_.contains(record.task); });
  if (merged.ok() && wanted && !gathering->gone) {
    for (TaskRecord& record : site->records) {
      jobs_.at(record.task).stage = Job::Stage::kHeld;
      gathering->records.push_back(std::move(record));
    }
    return result;
  }
  if (merged.ok() && !gathering->gone) DropGathering(one.gather);
  for (const TaskRecord& record : site->records) {
    if (const auto job = jobs_.find(record.task); job != jobs_.end()) OfferAgain(job->second);
  }
  return refused(merged.ok() ? "its round is over" : Message(merged));
}

}  // namespace rivulet
