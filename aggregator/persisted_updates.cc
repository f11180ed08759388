// Updates that this aggregator has acknowledged and that no process may lose (Task::keep): from its clients' hands to
// its disk and from there into a sum, as often as one is lost.
#include <limits>
#include <span>
#include <utility>

#include "aggregator/aggregator.h"

namespace rivulet {

PersistedUpdates Aggregator::PersistedOf(const std::string& client_id) const {
  PersistedUpdates::Options options;
  options.max_bytes = std::numeric_limits<int64_t>::max();  // what was acknowledged is not dropped for room
  options.shared = true;
  options.on_note = [this, client_id](const std::string& sentence) {
    Tell("warning", fmt::format("of client '{}': {}", client_id, sentence));
  };
  return {*options_.file_system, options_.state, client_id, std::move(options)};
}

// Nobody's update may rely on it before it is in its parent for good.
Status Aggregator::MakeFolder() {
  if (options_.state.empty()) return FailedPrecondition("aggregator '{}' has no folder for it", options_.name);
  MutexLock lock(folder_mutex_);
  if (!folder_made_) RIVULET_RETURN_IF_ERROR(options_.file_system->CreateFolders(options_.state));
  folder_made_ = true;
  return absl::OkStatus();
}

// On the thread that brought it. What cannot be kept is not acknowledged; its client asks again until there is room, or
// its task is over.
Status Aggregator::Keep(const Task& task, const Upload::Whole& whole) {
  const std::string_view update(reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size());
  Status kept = MakeFolder();
  if (kept.ok()) kept = PersistedOf(task.client_id).KeepSent(task, update, whole.submission.measured);
  bool said = true;
  {
    MutexLock lock(mutex_);
    said = kept.ok() ? (said_unkept_ = false) : std::exchange(said_unkept_, true);
    if (const auto job = jobs_.find(task.id); job != jobs_.end()) job->second.kept = kept.ok();
  }
  if (!kept.ok() && !said) {
    Tell("warning", fmt::format("updates cannot be kept, and are not acknowledged (server.checkpoint_reports): {}",
                                Message(kept)));
  }
  return kept;
}

// Of a task that is being folded; whatever keeps it from that, its client is asked for it.
Status Aggregator::CountKept(const TaskId& task) {
  Task of;
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.stage != Job::Stage::kFolding) return absl::OkStatus();
    of = job->second.task;
  }
  const std::optional<FinishedWork> work = PersistedOf(of.client_id).Find(of);
  Upload::Whole whole;
  whole.submission.task = task;
  StatusOr<ArrivedUpdate> update = NotFound("its update is not kept");
  if (work) {
    whole.bytes = std::as_bytes(std::span(work->update));
    whole.submission.measured = *work;
    update = ReadUpdate(whole);
  }
  std::shared_ptr<Gathering> gathering;
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.stage != Job::Stage::kFolding) return absl::OkStatus();
    job->second.stage = Job::Stage::kOffered;
    if (update.ok()) {
      SubmitResult refused;
      gathering = Admit(task, update, &of, &refused);
    } else {
      job->second.kept = false;
      News(of.client_id);
    }
  }
  if (gathering != nullptr) (void)FoldInto(gathering, of, *std::move(update));
  return absl::OkStatus();
}

// Not under the lock: files are removed.
void Aggregator::Settle(const TaskOutcome& outcome) {
  const std::optional<TaskName> name = TaskNameOf(outcome.task, run_id_);
  if (!name || name->kind != TaskKind::kTrain) return;
  errands_.push_back([this, outcome, client_id = name->client_id](CoordinatorCalls&) -> Status {
    PersistedOf(client_id).Settle(outcome);
    return absl::OkStatus();
  });
  changed_.NotifyAll();
}

}  // namespace rivulet
