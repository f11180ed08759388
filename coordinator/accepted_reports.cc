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

// A complete update could not be stored: its client sends it again until there is room, or its task is over.
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

// The machine refuses late updates. Clients that measure a version are asked again after a crash, so nothing is stored.
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

// After a restart, most tasks follow from the rows of closed attempts and the members. Tasks that replaced failed ones,
// or outlive versions, are in the snapshot alone, and so is the version that a task starts from. One snapshot names all
// open tasks, so most reports need no new one.
Status AcceptedReports::NameInHistory(const TaskId& task) {
  const Status over = Unavailable("the run has ended");
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (named_tasks_.contains(task)) return absl::OkStatus();
    }
    RIVULET_ASSIGN_OR_RETURN(std::optional<Rounds::Snapshot> snapshot, rounds_.Save());
    // The run may end meanwhile: its history stays open for this call.
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

// Attempts with written rows need no stored reports. Once a synchronous round is written, neither do reports of an
// earlier process whose tasks were not offered again.
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

// The site may be gone for good, so its stored partial sum is read again like a new one.
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

// If the report cannot be aggregated, its clients are asked for it. A sender that got no answer from the
// earlier process may be sending it again now: then the new upload is aggregated, and its acknowledgement
// rests on this file. A report that fails for lack of room alone, as on a full disk, stays for the next
// process.
void AcceptedReports::Count(const LeftReport& left) {
  const Status counted = left.partial ? CountPartial(*left.partial) : CountUpdate(left);
  const bool stays = absl::IsUnavailable(counted);
  if (absl::IsAlreadyExists(counted) || (stays && !rounds_.IsMissing(left.task))) return;
  if (!counted.ok() && !stays && left.partial) {
    store_.Remove(*left.partial);
    rounds_.LoseSite(left.partial->site);  // its newly offered tasks go to any site that polls
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
