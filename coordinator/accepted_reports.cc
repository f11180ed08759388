#include "coordinator/accepted_reports.h"

#include <utility>

#include "coordinator/intake/site_partial.h"
#include "coordinator/rounds.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {

void AcceptedReports::FindPartials(int64_t round) {
  for (const std::string& why : store_.FindPartials()) {
    events_.Tell(events_.Note("warning",
                              fmt::format("a partial sum that was acknowledged before the restart cannot be counted: "
                                          "{}; its updates are requested again",
                                          why),
                              round));
  }
}

// Of an update that came whole and was not kept: its client sends it again until there is room, or its task is over.
Status AcceptedReports::AskAgain(const Status& why) {
  bool said = true;
  {
    MutexLock lock(mutex_);
    said = std::exchange(said_unkept_, true);
  }
  if (!said) {
    events_.Tell(events_.Note(
        "warning",
        fmt::format("updates cannot be kept, and are not acknowledged (server.checkpoint_reports): {}", Message(why)),
        rounds_.Round()));
  }
  return Unavailable("this update cannot be kept: {}; ask again", Message(why));
}

// What is too late the machine refuses. Who measures a version is asked again after a crash.
Status AcceptedReports::Keep(const Upload::Whole& whole) {
  const TaskId& task = whole.submission.task;
  const std::optional<Digest> base = rounds_.BaseOf(task);
  if (!base) return absl::OkStatus();
  Status kept = store_.Keep(task, *base, whole.submission.measured,
                            {reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size()});
  if (kept.ok()) {
    kept = NameInHistory(task);
    if (!kept.ok()) store_.Remove(task);
  }
  return kept.ok() ? kept : AskAgain(kept);
}

StatusOr<std::optional<KeptPartial>> AcceptedReports::Keep(const std::string& site, std::span<const TaskRecord> records,
                                                           std::span<const std::byte> bytes) {
  std::vector<TaskId> tasks;
  Digest base;
  for (const TaskRecord& record : records) {
    const std::optional<Digest> of = rounds_.BaseOf(record.task);
    if (!of) return std::nullopt;
    tasks.push_back(record.task);
    base = *of;
  }
  StatusOr<KeptPartial> kept =
      store_.KeepPartial(site, tasks, base, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!kept.ok()) return AskAgain(kept.status());
  for (const TaskId& task : tasks) {
    if (const Status named = NameInHistory(task); !named.ok()) {
      store_.Remove(*kept);
      return AskAgain(named);
    }
  }
  return std::optional(*std::move(kept));
}

// The rows of closed attempts and the members tell a restart most tasks; those that took the place of others that
// failed, or that outlive versions, only the snapshot does, and the version that a task starts from must be there too.
// One snapshot names all that are out, so that most reports find theirs named already.
Status AcceptedReports::NameInHistory(const TaskId& task) {
  const Status over = Unavailable("the run has ended");
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (named_tasks_.contains(task)) return absl::OkStatus();
    }
    RIVULET_ASSIGN_OR_RETURN(std::optional<Rounds::Snapshot> snapshot, rounds_.Save());
    // The run may end meanwhile: its history stays open for this.
    if (snapshot) {
      const BlobRow row{kSnapshotBlob, std::move(snapshot->bytes)};
      const auto put = history_.WhileOpen([&] { return history_->PutBlob(run_id_, snapshot->round, row); });
      RIVULET_RETURN_IF_ERROR(put.value_or(over));
      MutexLock lock(mutex_);
      named_tasks_ = std::move(snapshot->tasks);
      named_tasks_.insert(task);
      return absl::OkStatus();
    }
    RIVULET_RETURN_IF_ERROR(history_.WhileOpen(flush_).value_or(over));
    rounds_.AwaitWritten();
  }
}

// Of attempts whose rows are written nothing is needed any more; nor, once a synchronous round is, of what the process
// before this one has left and nobody was offered.
void AcceptedReports::Forget(std::span<const PendingAttempt> attempts) {
  for (const PendingAttempt& pending : attempts) {
    if (pending.attempt.kind != TaskKind::kTrain) continue;
    if (keeps_ || resumed_) {
      for (const auto& [lease, facts] : pending.attempt.tasks) store_.Remove(lease.task);
    }
    if (parts_.policy.base == TaskPolicy::Base::kCommitted) store_.RemoveLeft();
  }
}

Status AcceptedReports::CountUpdate(const LeftReport& left) {
  RIVULET_ASSIGN_OR_RETURN(const KeptReport report, store_.Read(left.task));
  RIVULET_RETURN_IF_ERROR(rounds_.BaseOfRecoveredReport(left.task, report.base).status());
  const Submission submission{left.task, 0, std::ssize(report.update), report.measured};
  RIVULET_ASSIGN_OR_RETURN(const auto writer, rounds_.Submit({.name = left.client_id, .run_id = run_id_}, submission));
  if (const SubmitResult* const decided = writer->decided()) {
    return decided->kind == SubmitResult::Kind::kDuplicate ? AlreadyExists("it has arrived again meanwhile")
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
Status AcceptedReports::CountPartial(const KeptPartial& left) {
  RIVULET_ASSIGN_OR_RETURN(const KeptReport report, store_.Read(left));
  int64_t base_version = 0;
  for (const TaskId& task : left.tasks) {
    RIVULET_ASSIGN_OR_RETURN(base_version, rounds_.BaseOfRecoveredReport(task, report.base));
  }
  RIVULET_ASSIGN_OR_RETURN(SitePartial site, ReadSitePartial(std::as_bytes(std::span(report.update)),
                                                             parts_.aggregation, base_version, parts_.sum_files.get()));
  RIVULET_ASSIGN_OR_RETURN(const SubmitResult result,
                           rounds_.MergePartial(left.site, std::move(site.partial), site.records, true));
  return result.kind == SubmitResult::Kind::kRefused ? FailedPrecondition("{}", result.reason) : absl::OkStatus();
}

// On the run's thread, for what was offered just now. Whatever keeps it from being counted, its clients are still asked
// for it. Whoever sent it, and had no answer from the process before, may be sending it again at this moment: then it
// is counted by that, and the file is what that acknowledgement rests on. What only has no room now, as on a full disk,
// stays for the next process.
void AcceptedReports::Count(const LeftReport& left) {
  const Status counted = left.partial ? CountPartial(*left.partial) : CountUpdate(left);
  const bool stays = absl::IsUnavailable(counted);
  if (absl::IsAlreadyExists(counted) || (stays && !rounds_.IsMissing(left.task))) return;
  if (!counted.ok() && !stays && left.partial) {
    store_.Remove(*left.partial);
    rounds_.LoseSite(left.partial->site);  // what it was given just now is offered to whoever asks
  } else if (!counted.ok() && !stays) {
    store_.Remove(left.task);
  }
  const std::string what = left.partial ? fmt::format("the partial sum of {} updates of site '{}'",
                                                      left.partial->tasks.size(), left.partial->site)
                                        : fmt::format("the update of client '{}'", left.client_id);
  std::string sentence =
      counted.ok()
          ? fmt::format("{} that was acknowledged before the restart is counted", what)
          : fmt::format("{} that was acknowledged before the restart cannot be counted: {}; it is requested again{}",
                        what, Message(counted), stays ? ", and stays on disk until it arrives" : "");
  const char* const level = counted.ok() ? "info" : "warning";
  events_.Tell(left.partial ? events_.Note(level, std::move(sentence), left.round)
                            : events_.NoteOf(left.client_id, level, std::move(sentence), left.round, left.task));
}

}  // namespace rivulet
