#include "client/site/site.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "client/training/device/gpu_team.h"
#include "client/training/failure.h"
#include "engine/profile/tracer.h"
#include "federated/updates/site_partial_bytes.h"

namespace rivulet {
namespace {

// The work per poll: a site takes tasks for about so long, and reports its progress as often.
constexpr std::chrono::duration<double> kBetweenPolls{0.02};

}  // namespace

Site::Site(CoordinatorApi& api, const ClientData& data, ArtifactCache& artifacts, StopSignal& stop, SiteOptions options)
    : api_(api),
      data_(data),
      artifacts_(artifacts),
      stop_(stop),
      options_(std::move(options)),
      caller_{.name = options_.name,
              .certificate_serial = "",
              .run_id = options_.run_id,
              .session = uint64_t{std::random_device()()} << 32 | std::random_device()()},
      calls_(api, stop, options_.calls),
      remote_states_(api, stop, caller_, options_.calls),
      trainer_(artifacts, stop, options_.instruments, options_.states != nullptr ? options_.states : &remote_states_, 0,
               TrainersOnAll(options_.device)),
      want_(options_.least_tasks) {
  trainer_.ProtectExamples(options_.example_keys);
}

Status Site::Run() {
  EnterWorkerThread();
  asked_ = Clock::now();
  while (!stop_.stopped()) {
    if (queue_.empty() || Clock::now() - asked_ >= kBetweenPolls) {
      PollReply reply;
      // Tasks that train at once are requested until they are complete, or no more come: a reply gives only a share of
      // the rest.
      do {
        RIVULET_ASSIGN_OR_RETURN(reply, Ask());
        RIVULET_RETURN_IF_ERROR(Obey(reply));
        std::ranges::move(reply.tasks, std::back_inserter(queue_));
      } while (!reply.tasks.empty() && std::ssize(queue_) < options_.least_tasks);
      if (queue_.empty()) {
        if (reply.over) return absl::OkStatus();
        if (reply.hand_over.empty()) api_.AwaitWork(caller_, reply.epoch, reply.wait_ms);
        continue;
      }
    }
    const std::vector<Task> tasks = NextTasks();
    RIVULET_RETURN_IF_ERROR(Work(tasks));
    done_ += std::ssize(tasks);
  }
  return Cancelled("stopped");
}

// Lists all tasks in hand, and among held ones only new ones: the coordinator remembers the rest. One task of each
// partial sum is listed again, so that the site learns when its attempt was abandoned.
PollRequest Site::Request() const {
  PollRequest request;
  request.caller = caller_;
  request.capabilities.version = options_.version;
  request.serves.kind = Serves::Kind::kAny;
  request.want = 0;
  for (const Task& task : queue_) request.working_on.push_back({task.id, false, task.step});
  for (const auto& [task, steps] : in_steps_) request.working_on.push_back({task, false, steps.answered});
  for (const auto& [gather, open] : open_) {
    if (open.told > 0) request.working_on.push_back({open.records[0].task, true});
    for (size_t i = open.told; i < open.records.size(); ++i) request.working_on.push_back({open.records[i].task, true});
  }
  return request;
}

// A waiting site with held tasks must not be silent for longer than a lease.
StatusOr<PollReply> Site::Ask() {
  const Clock::time_point now = Clock::now();
  if (done_ > 0) {
    const std::chrono::duration<double> each = (now - asked_) / static_cast<double>(done_);
    want_ = std::clamp(static_cast<int64_t>(kBetweenPolls / each), options_.least_tasks, options_.most_tasks);
  }
  asked_ = now;
  done_ = 0;
  PollRequest request = Request();
  for (auto& [gather, open] : open_) open.told = open.records.size();
  if (queue_.empty()) {
    // Tasks that wait for their next step are given again, beside new ones.
    request.want = want_ + std::ssize(in_steps_);
    request.hold_ms = open_.empty() && in_steps_.empty() ? options_.hold_ms : std::min(options_.hold_ms, beat_ms_);
    request.told = told_;
  } else if (std::ssize(queue_) < options_.least_tasks) {
    request.want = options_.least_tasks - std::ssize(queue_);
  }
  RIVULET_ASSIGN_OR_RETURN(PollReply reply, calls_.Poll(request));
  told_ = reply.tasks.empty();
  if (!reply.tasks.empty()) beat_ms_ = std::max<int64_t>(reply.wait_ms, 1);
  return reply;
}

Status Site::Obey(const PollReply& reply) {
  for (const TaskOutcome& outcome : reply.outcomes) {
    const std::optional<TaskName> name = TaskNameOf(outcome.task, options_.run_id);
    if (options_.states == nullptr || !name) continue;
    if (outcome.end != TaskEnd::kFolded) {
      options_.states->Forget(options_.run_id, name->client_id, outcome.task);
    } else if (outcome.durable) {
      options_.states->Durable(options_.run_id, name->client_id, outcome.task);
    }
  }
  for (const TaskId& task : reply.cancelled) RIVULET_RETURN_IF_ERROR(Forget(task, reply));
  for (const HandOver& wanted : reply.hand_over) {
    const auto open = open_.find(wanted.gather);
    const bool whole = open != open_.end() && open->second.records.size() == wanted.tasks.size();
    if (whole) {
      RIVULET_RETURN_IF_ERROR(HandOverPartial(wanted.gather));
      continue;
    }
    open_.erase(wanted.gather);
    for (const TaskId& task : wanted.tasks) RIVULET_RETURN_IF_ERROR(GiveUp(task, "its site has lost its update"));
  }
  return absl::OkStatus();
}

// A task that the coordinator no longer knows has ended otherwise: there is nothing to report.
Status Site::GiveUp(const TaskId& task, std::string_view reason) {
  const Status told = calls_.Fail(caller_, {.task = task, .sentence = std::string(reason)});
  return absl::IsNotFound(told) ? absl::OkStatus() : told;
}

// Nothing can be subtracted from a sum, so a partial sum is dropped as a whole. Its other tasks end too, so that the
// coordinator does not wait for them, except for those that the same reply gives anew: a restarted coordinator does not
// know this partial sum, and offers the same tasks.
Status Site::Forget(const TaskId& cancelled, const PollReply& reply) {
  std::erase_if(queue_, [&](const Task& task) { return task.id == cancelled; });
  in_steps_.erase(cancelled);
  for (auto open = open_.begin(); open != open_.end(); ++open) {
    const std::vector<TaskRecord>& records = open->second.records;
    if (std::none_of(records.begin(), records.end(), [&](const auto& record) { return record.task == cancelled; })) {
      continue;
    }
    const OpenPartial gone = std::move(open->second);
    open_.erase(open);
    for (const TaskRecord& record : gone.records) {
      const auto given = [&](const Task& task) { return task.id == record.task; };
      if (record.task == cancelled || std::ranges::any_of(reply.tasks, given)) continue;
      RIVULET_RETURN_IF_ERROR(GiveUp(record.task, "its update was gathered with one that was cancelled"));
    }
    break;
  }
  return absl::OkStatus();
}

// The sum is sent as one piece, so that it can be sent again; its own memory is freed before.
StatusOr<SubmitResult> Site::Send(uint64_t gather, OpenPartial open) {
  RIVULET_ASSIGN_OR_RETURN(std::string partial, TakeSitePartial(*open.aggregation, open.base_version, open.records));
  const auto bytes = std::make_shared<const std::string>(std::move(partial));
  Submission submission;
  submission.kind = Submission::Kind::kPartial;
  submission.gather = gather;
  submission.bytes = std::ssize(*bytes);
  BeginBeat(open.records[0].task);
  StatusOr<SubmitResult> result = calls_.Submit(caller_, submission, bytes);
  if (EndBeat() || result.ok() || stop_.stopped()) return result;
  return SubmitResult{SubmitResult::Kind::kRefused, "its round is over"};
}

Status Site::HandOverPartial(uint64_t gather) {
  OpenPartial open = std::move(open_.extract(gather).mapped());
  std::vector<TaskId> tasks;
  for (const TaskRecord& record : open.records) tasks.push_back(record.task);
  const StatusOr<SubmitResult> result =
      heartbeat_ != nullptr ? Send(gather, std::move(open))
                            : api_.SubmitInPlace(caller_, open.aggregation->Extract(open.base_version), open.records);
  // Accepted, or refused with all its tasks; or the run was stopped, and a resumed run trains them again.
  if (result.ok() || absl::IsUnavailable(result.status())) return absl::OkStatus();
  if (stop_.stopped() || absl::IsPermissionDenied(result.status())) return result.status();
  for (const TaskId& task : tasks) RIVULET_RETURN_IF_ERROR(GiveUp(task, Sentence(Message(result.status()))));
  return absl::OkStatus();
}

void Site::BeginBeat(const TaskId& task) {
  if (heartbeat_ != nullptr) heartbeat_->Begin(Request(), task, beat_ms_);
}

bool Site::EndBeat() {
  if (heartbeat_ == nullptr) return true;
  heartbeat_->End();
  const bool alive = !stop_.task_cancelled();
  stop_.BeginTask();  // the end of this task must not cancel the next call
  return alive;
}

}  // namespace rivulet
