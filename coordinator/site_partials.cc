// Partial sums from sites of other processes: staged like updates, read whole, and then merged like those of this
// process (in_place.cc).
#include "coordinator/rounds.h"

namespace rivulet {

// A site has at most one partial sum per gathering under way. Its tasks are unknown until all of it is read, so this
// checks only whether its round still accepts updates.
StatusOr<Intake::Begun> Rounds::BeginPartial(const Caller& caller, const Submission& submission) {
  RIVULET_RETURN_IF_ERROR(intake_.distrusted().Check(caller));
  MutexLock lock(mutex_);
  TickIfDue();
  // A resumed run offers the same tasks again, and does not know their sites.
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
  if (attempt == nullptr) return RefusedWriter("its round is closed and has the updates that arrived in time");
  if (attempt->secure != nullptr) return BeginSummedWords(attempt, caller, submission);
  if (std::string why = WrongSize("a partial", submission.bytes, max_partial_bytes_); !why.empty()) {
    return RefusedWriter(std::move(why));
  }
  std::string key = fmt::format("partial sum {} of site {}", submission.gather, caller.name);
  attempt->arriving.insert(key);
  return intake_.BeginPartial(
      key, caller, submission, attempt->kind == TaskKind::kTrain ? parts_.aggregation : parts_.evaluation, base_version,
      [this, attempt, caller, key](StatusOr<SitePartial> site, std::span<const std::byte> bytes,
                                   const Intake::Release& release) {
        StatusOr<SubmitResult> result = TakePartial(attempt, caller, key, std::move(site), bytes, release);
        events_.Drain();
        return result;
      },
      parts_.sum_files.get());
}

// An invalid partial sum is its site's fault, not a client's: the site loses its tasks, and they are offered to others,
// so the same clients make the version. A partial sum with tasks that went to others, because its site was silent, is
// no site's fault, but is lost as well.
StatusOr<SubmitResult> Rounds::TakePartial(const std::shared_ptr<Attempt>& attempt, const Caller& caller,
                                           const std::string& key, StatusOr<SitePartial> site,
                                           std::span<const std::byte> bytes, const Intake::Release& release) {
  std::optional<KeptPartial> kept;
  if (site.ok() && reports_.keeps() && attempt->kind == TaskKind::kTrain) {
    RIVULET_ASSIGN_OR_RETURN(kept, reports_.Keep(caller.name, site->records, bytes));
  }
  release();
  StatusOr<SubmitResult> result = SubmitResult{};
  if (site.ok()) result = MergePartial(caller.name, std::move(site->partial), site->records);
  const Status wrong = site.ok() ? result.status() : site.status();
  if (!site.ok() || absl::IsNotFound(wrong) || absl::IsInvalidArgument(wrong)) {
    result = SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(wrong))};
  }
  const bool refused = result.ok() && result->kind == SubmitResult::Kind::kRefused;
  if (kept && refused) reports_.store().Remove(*kept);
  bool tells = !site.ok();
  {
    MutexLock lock(mutex_);
    attempt->arriving.erase(key);
    if (const auto& now = AttemptOf(attempt->kind); now != nullptr) now->arriving.erase(key);
    if (refused) Feed(SiteLost{caller.name});
    tells |= refused && attempt->open;
  }
  if (tells) {
    events_.Tell(events_.Note("warning",
                              fmt::format("the partial sum of site '{}' is refused: {}", caller.name, result->reason),
                              attempt->round));
  }
  return result;
}

}  // namespace rivulet
