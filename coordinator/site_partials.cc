// Partials that sites of other processes send: staged as updates are, read whole, and then taken as those of this
// process are (in_place.cc).
#include "coordinator/intake/chunk_writers.h"
#include "coordinator/intake/site_partial.h"
#include "coordinator/run_coordinator.h"
#include "engine/profile/tracer.h"

namespace rivulet {

// A site has one partial a gathering under way. Its tasks are not known before all of it is read, so what is asked here
// is only whether the round that it belongs to still takes any.
StatusOr<std::unique_ptr<ChunkWriter>> RunCoordinator::BeginPartial(const Caller& caller,
                                                                    const Submission& submission) {
  const auto refused = [](std::string reason) {
    return std::make_unique<DecidedWriter>(SubmitResult{SubmitResult::Kind::kRefused, std::move(reason)});
  };
  // What is resumed offers the same tasks again, and knows nothing of who had them.
  if (machine_.phase() == RunMachine::Phase::kStopped) return Unavailable("the run was stopped; it may be resumed");
  std::shared_ptr<Attempt> attempt;
  int64_t base_version = 0;
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const std::shared_ptr<Attempt>& of = AttemptOf(kind);
    if (of == nullptr || !of->open || machine_.over()) continue;
    const auto gather = of->gathers.find(submission.gather);
    if (gather == of->gathers.end()) continue;
    attempt = of;
    base_version = gather->second;
  }
  if (attempt == nullptr) {
    return refused("its round is closed; what of it came in time is in");
  }
  if (submission.bytes < 1 || submission.bytes > max_partial_bytes_) {
    return refused(fmt::format("a partial of {} bytes was announced, and those of this plan have 1 to {}",
                               submission.bytes, max_partial_bytes_));
  }
  std::string key = fmt::format("partial {} of site {}", submission.gather, caller.name);
  RIVULET_ASSIGN_OR_RETURN(Intake::Begun begun, intake_.Begin(key, submission));
  attempt->arriving.insert(key);
  return std::make_unique<StagedWriter>(std::move(begun), [this, attempt, base_version, caller, key](
                                                              Upload& upload, int64_t writer, const Digest& identity) {
    StatusOr<SubmitResult> result = ClosePartial(attempt, base_version, caller, key, upload, writer, identity);
    events_.Drain();
    return result;
  });
}

// A partial that cannot be right is its site's fault, or its disk's, and no client's: the site loses what it has, which
// is offered to others, so that the same clients make the version. One whose tasks have gone to others meanwhile, as
// nothing was heard of their site, is nobody's fault, and is lost just the same.
StatusOr<SubmitResult> RunCoordinator::ClosePartial(const std::shared_ptr<Attempt>& attempt, int64_t base_version,
                                                    const Caller& caller, const std::string& key, Upload& upload,
                                                    int64_t writer, const Digest& identity) {
  StatusOr<Upload::Whole> whole = upload.Complete(writer, identity);
  if (absl::IsAborted(whole.status())) {
    MutexLock lock(mutex_);
    if (machine_.phase() == RunMachine::Phase::kStopped) return Unavailable("{}", Message(whole.status()));
    return SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(whole.status()))};
  }
  RIVULET_RETURN_IF_ERROR(whole.status());
  TraceSpan reading(options_.tracer, "phase", "read partial");
  reading.Arg("bytes", std::ssize(whole->bytes));
  StatusOr<SitePartial> site = ReadSitePartial(
      whole->bytes, attempt->kind == TaskKind::kTrain ? parts_.aggregation : parts_.evaluation, base_version);
  reading.End();
  std::optional<KeptPartial> kept;
  if (site.ok() && keeps_reports_ && attempt->kind == TaskKind::kTrain) {
    StatusOr<std::optional<KeptPartial>> on_disk = KeepPartial(caller.name, site->records, whole->bytes);
    if (!on_disk.ok()) {
      upload.Release();
      intake_.Forget(key);
      return AskAgain(on_disk.status());
    }
    kept = *std::move(on_disk);
  }
  upload.Release();
  intake_.Forget(key);

  StatusOr<SubmitResult> result = SubmitResult{};
  if (site.ok()) {
    result = MergePartial(caller.name, std::move(site->partial), site->records);
    if (absl::IsNotFound(result.status()) || absl::IsInvalidArgument(result.status())) {
      result = SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(result.status()))};
    }
  } else if (absl::IsResourceExhausted(site.status()) || absl::IsInternal(site.status())) {
    return Unavailable("{}", Message(site.status()));  // of this machine's disk, not of the partial
  } else {
    result = SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(site.status()))};
  }
  if (kept && result.ok() && result->kind == SubmitResult::Kind::kRefused) reports_.Remove(*kept);
  std::optional<EventRow> event;
  {
    MutexLock lock(mutex_);
    attempt->arriving.erase(key);
    if (const auto& now = AttemptOf(attempt->kind); now != nullptr) now->arriving.erase(key);
    const bool refused = result.ok() && result->kind == SubmitResult::Kind::kRefused;
    if (refused) Feed(SiteLost{caller.name});
    if (!site.ok()) distrusted_.Add(caller, result->reason);
    if (!site.ok() || (refused && attempt->open)) {
      event =
          events_.Note("warning", fmt::format("the partial of site '{}' is refused: {}", caller.name, result->reason),
                       attempt->round);
    }
  }
  if (event) events_.Tell(*std::move(event));
  return result;
}

}  // namespace rivulet
