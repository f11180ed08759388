// Reports that survive this process (server.checkpoint_reports): an update lies in a file, and the machine's snapshot
// that names its task in a row, before it is folded and acknowledged. The process that goes on with the run offers that
// task under its name again, and what lies there is folded as if its client had sent it.
#include "coordinator/intake/chunk_writers.h"
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
    base = VersionOf(lease->base_round).digest;
  }
  RIVULET_RETURN_IF_ERROR(reports_.Keep(task, base, whole.submission.measured.train_seconds,
                                        {reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size()}));
  const Status named = NameInHistory(task);
  if (!named.ok()) reports_.Remove(task);
  return named;
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
    Tell(Note(
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
    if (!failure_.ok() || history_closed_) return Unavailable("the run has ended");
    if (unwritten_ == 0) break;
    mutex_.Unlock();
    const Status written = writer_.Flush();
    mutex_.Lock();
    RIVULET_RETURN_IF_ERROR(written);
    // One that was closed just now is about to be given to the writer.
    if (unwritten_ > 0) changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
  }
  // With the rows of the newest attempt that has closed, as the writer's own. Should that of a later one overtake this,
  // the restart finds the later one; of the same round, none that fits its rows, and draws by these.
  const int64_t round = machine_.committed_round() + (machine_.attempt() > 1 ? 1 : 0);
  std::set<TaskId> named = {task};
  for (const Lease& lease : machine_.leases()) named.insert(lease.task);
  const BlobRow snapshot{kSnapshotBlob, machine_.Save(Now())};
  RIVULET_RETURN_IF_ERROR(Unlocked([&] { return history_->PutBlob(run_id_, round, snapshot); }));
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
    if (parts_.dial.base == Dial::Base::kCommitted) reports_.RemoveLeft();
  }
}

// On the run's thread, for a task that was offered just now. Whatever keeps it from being counted, its client is still
// asked for it.
void RunCoordinator::CountLeft(const LeftReport& left) {
  const auto count = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(const KeptReport report, reports_.Read(left.task));
    {
      MutexLock lock(mutex_);
      const Lease* const lease = machine_.FindLease(left.task);
      if (lease == nullptr || lease->resolved() || VersionOf(lease->base_round).digest != report.base) {
        return FailedPrecondition("its task is another by now");
      }
    }
    const Submission submission{left.task, 0, std::ssize(report.update), {.train_seconds = report.train_seconds}};
    RIVULET_ASSIGN_OR_RETURN(const auto writer, Submit({.name = left.client_id, .run_id = run_id_}, submission));
    if (writer->decided() != nullptr) return FailedPrecondition("its task has ended");
    const auto bytes = std::as_bytes(std::span(report.update));
    BlockCrcs crcs;
    crcs.Append(bytes);
    RIVULET_RETURN_IF_ERROR(writer->Resume(0));
    RIVULET_RETURN_IF_ERROR(writer->Write(bytes));
    RIVULET_ASSIGN_OR_RETURN(const SubmitResult result, writer->Finish(crcs.Identity(0)));
    return result.kind == SubmitResult::Kind::kRefused ? FailedPrecondition("{}", result.reason) : absl::OkStatus();
  };
  const Status counted = count();
  if (!counted.ok()) reports_.Remove(left.task);
  std::string sentence =
      counted.ok()
          ? fmt::format("the update of client '{}' that was acknowledged before the restart is counted", left.client_id)
          : fmt::format(
                "the update of client '{}' that was acknowledged before the restart cannot be counted: {}; it is "
                "asked for again",
                left.client_id, Message(counted));
  Tell(NoteOf(left.client_id, counted.ok() ? "info" : "warning", std::move(sentence), left.round, left.task));
}

}  // namespace rivulet
