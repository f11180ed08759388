// Reports that survive this process (server.checkpoint_reports): an update, or a site's partial, lies in a file, and
// the machine's snapshot that names its tasks in a row, before it is folded and acknowledged. The process that goes on
// with the run offers these tasks under their names again, and what lies there is folded as if its client, or its site,
// had sent it.
#include "coordinator/intake/chunk_writers.h"
#include "coordinator/intake/site_partial.h"
#include "coordinator/run_coordinator.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {

// On the thread that brought it, without the lock while the disk works. After an error nothing of it is kept, and its
// client may send it again.
Status RunCoordinator::KeepReport(const TaskId& task, const Upload::Whole& whole) {
  Digest base;
  {
    MutexLock lock(mutex_);
    const Lease* const lease = machine_.FindLease(task);
    // What is too late the machine refuses. Who measures a version is asked again after a crash.
    if (lease == nullptr || lease->resolved() || lease->kind != TaskKind::kTrain) return absl::OkStatus();
    base = versions_.Of(lease->base_round)->sent_digest;
  }
  RIVULET_RETURN_IF_ERROR(reports_.Keep(task, base, whole.submission.measured.train_seconds.value_or(0),
                                        {reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size()}));
  const Status named = NameInHistory(task);
  if (!named.ok()) reports_.Remove(task);
  return named;
}

StatusOr<std::optional<KeptPartial>> RunCoordinator::KeepPartial(const std::string& site,
                                                                 std::span<const TaskRecord> records,
                                                                 std::span<const std::byte> bytes) {
  std::vector<TaskId> tasks;
  Digest base;
  {
    MutexLock lock(mutex_);
    for (const TaskRecord& record : records) {
      const Lease* const lease = machine_.FindLease(record.task);
      if (lease == nullptr || lease->resolved()) return std::nullopt;
      tasks.push_back(record.task);
      base = versions_.Of(lease->base_round)->sent_digest;
    }
  }
  RIVULET_ASSIGN_OR_RETURN(
      KeptPartial kept,
      reports_.KeepPartial(site, tasks, base, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  for (const TaskId& task : tasks) {
    if (const Status named = NameInHistory(task); !named.ok()) {
      reports_.Remove(kept);
      return named;
    }
  }
  return std::optional(std::move(kept));
}

// Of an update that came whole and was not kept: its client sends it again until there is room, or its task is over.
Status RunCoordinator::AskAgain(const Status& why) {
  bool said = true;
  int64_t round = 0;
  {
    MutexLock lock(mutex_);
    said = std::exchange(said_unkept_, true);
    round = machine_.round();
  }
  if (!said) {
    events_.Tell(events_.Note(
        "warning",
        fmt::format("updates cannot be kept, and are not acknowledged (server.checkpoint_reports): {}", Message(why)),
        round));
  }
  return Unavailable("this update cannot be kept: {}; ask again", Message(why));
}

// The rows of closed attempts and the members tell a restart most tasks; those that took the place of others that
// failed, or that outlive versions, only the snapshot does, and the version that a task starts from must be there too.
// One snapshot names all that are out, so that most reports find theirs named already.
Status RunCoordinator::NameInHistory(const TaskId& task) {
  MutexLock lock(mutex_);
  for (;;) {
    if (named_tasks_.contains(task)) return absl::OkStatus();
    if (!failure_.ok()) return Unavailable("the run has ended");
    if (unwritten_ == 0) break;
    mutex_.Unlock();
    const std::optional<Status> written = history_.WhileOpen([&] { return writer_.Flush(); });
    mutex_.Lock();
    RIVULET_RETURN_IF_ERROR(written.value_or(Unavailable("the run has ended")));
    // One that was closed just now is about to be given to the writer.
    if (unwritten_ > 0) changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
  }
  // With the rows of the newest attempt that has closed, as the writer's own. Should that of a later one overtake this,
  // the restart finds the later one; of the same round, none that fits its rows, and draws by these.
  const int64_t round = machine_.committed_round() + (machine_.attempt() > 1 ? 1 : 0);
  std::set<TaskId> named = {task};
  for (const Lease& lease : machine_.leases()) named.insert(lease.task);
  const BlobRow snapshot{kSnapshotBlob, machine_.Save(clock_.Now())};
  mutex_.Unlock();
  const std::optional<Status> put = history_.WhileOpen([&] { return history_->PutBlob(run_id_, round, snapshot); });
  mutex_.Lock();
  RIVULET_RETURN_IF_ERROR(put.value_or(Unavailable("the run has ended")));
  named_tasks_ = std::move(named);
  return absl::OkStatus();
}

// Of attempts whose rows are written nothing is needed any more; nor, once a synchronous round is, of what the process
// before this one has left and nobody was offered.
void RunCoordinator::ForgetReports(std::span<const PendingAttempt> attempts) {
  for (const PendingAttempt& pending : attempts) {
    if (pending.attempt.kind != TaskKind::kTrain) continue;
    if (keeps_reports_ || resumed_) {
      for (const auto& [lease, facts] : pending.attempt.tasks) reports_.Remove(lease.task);
    }
    if (parts_.policy.base == TaskPolicy::Base::kCommitted) reports_.RemoveLeft();
  }
}

StatusOr<int64_t> RunCoordinator::BaseOfRecoveredReport(const TaskId& task, const Digest& base) {
  MutexLock lock(mutex_);
  const Lease* const lease = machine_.FindLease(task);
  if (lease != nullptr && (lease->state == Lease::State::kFolding || lease->state == Lease::State::kFolded)) {
    return AlreadyExists("it has come again meanwhile");
  }
  if (lease == nullptr || lease->resolved() || versions_.Of(lease->base_round)->sent_digest != base) {
    return FailedPrecondition("its task is another by now");
  }
  return lease->base_round;
}

Status RunCoordinator::CountUpdate(const LeftReport& left) {
  RIVULET_ASSIGN_OR_RETURN(const KeptReport report, reports_.Read(left.task));
  RIVULET_RETURN_IF_ERROR(BaseOfRecoveredReport(left.task, report.base).status());
  const Submission submission{left.task, 0, std::ssize(report.update), {.train_seconds = report.train_seconds}};
  RIVULET_ASSIGN_OR_RETURN(const auto writer, Submit({.name = left.client_id, .run_id = run_id_}, submission));
  if (const SubmitResult* const decided = writer->decided()) {
    return decided->kind == SubmitResult::Kind::kDuplicate ? AlreadyExists("it has come again meanwhile")
                                                           : FailedPrecondition("its task has ended");
  }
  const auto bytes = std::as_bytes(std::span(report.update));
  BlockCrcs crcs;
  crcs.Append(bytes);
  RIVULET_RETURN_IF_ERROR(writer->Resume(0));
  RIVULET_RETURN_IF_ERROR(writer->Write(bytes));
  RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, writer->Finish(crcs.Identity(0)));
  return result.kind == SubmitResult::Kind::kRefused ? FailedPrecondition("{}", result.reason) : absl::OkStatus();
}

// Its site may be gone for good: what it has folded is here, and read again as it was when it came.
Status RunCoordinator::CountPartial(const KeptPartial& left) {
  RIVULET_ASSIGN_OR_RETURN(const KeptReport report, reports_.Read(left));
  int64_t base_version = 0;
  for (const TaskId& task : left.tasks) {
    RIVULET_ASSIGN_OR_RETURN(base_version, BaseOfRecoveredReport(task, report.base));
  }
  RIVULET_ASSIGN_OR_RETURN(SitePartial site,
                           ReadSitePartial(std::as_bytes(std::span(report.update)), parts_.aggregation, base_version));
  RIVULET_ASSIGN_OR_RETURN(const SubmitResult result,
                           MergePartial(left.site, std::move(site.partial), site.records, true));
  return result.kind == SubmitResult::Kind::kRefused ? FailedPrecondition("{}", result.reason) : absl::OkStatus();
}

bool RunCoordinator::IsMissing(const TaskId& task) {
  MutexLock lock(mutex_);
  const Lease* const lease = machine_.over() ? nullptr : machine_.FindLease(task);
  return lease != nullptr && !lease->resolved() && lease->state != Lease::State::kFolding;
}

// On the run's thread, for what was offered just now. Whatever keeps it from being counted, its clients are still asked
// for it. Whoever sent it, and had no answer from the process before, may be sending it again at this moment: then it
// is counted by that, and the file is what that acknowledgement rests on. What only has no room now, as on a full disk,
// stays for the next process.
void RunCoordinator::CountLeft(const LeftReport& left) {
  const Status counted = left.partial ? CountPartial(*left.partial) : CountUpdate(left);
  const bool stays = absl::IsUnavailable(counted);
  if (absl::IsAlreadyExists(counted) || (stays && !IsMissing(left.task))) return;
  if (!counted.ok() && !stays && left.partial) {
    reports_.Remove(*left.partial);
    MutexLock lock(mutex_);
    Feed(SiteLost{left.partial->site});  // what it was given just now is offered to whoever asks
  } else if (!counted.ok() && !stays) {
    reports_.Remove(left.task);
  }
  const std::string what = left.partial ? fmt::format("the partial of {} updates of site '{}'",
                                                      left.partial->tasks.size(), left.partial->site)
                                        : fmt::format("the update of client '{}'", left.client_id);
  std::string sentence =
      counted.ok()
          ? fmt::format("{} that was acknowledged before the restart is counted", what)
          : fmt::format("{} that was acknowledged before the restart cannot be counted: {}; it is asked for again{}",
                        what, Message(counted), stays ? ", and stays on disk until it has come" : "");
  const char* const level = counted.ok() ? "info" : "warning";
  events_.Tell(left.partial ? events_.Note(level, std::move(sentence), left.round)
                            : events_.NoteOf(left.client_id, level, std::move(sentence), left.round, left.task));
}

}  // namespace rivulet
