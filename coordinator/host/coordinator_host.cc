#include "coordinator/host/coordinator_host.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace rivulet {
namespace {

// How often a caller asks for the next run if its polls are not held.
constexpr int64_t kNextRunMs = 5000;
constexpr char kAwaitsNextRun[] = "the next run, which has not begun yet";

// Cancels all the caller's tasks.
void CancelAll(const PollRequest& request, PollReply& reply) {
  reply.cancelled.clear();
  for (const TaskProgress& progress : request.working_on) reply.cancelled.push_back(progress.task);
}

// The replies of several runs to one caller, merged.
class MergedReply {
 public:
  explicit MergedReply(bool never_over) : never_over_(never_over) {}
  // Sets the reply of a run that gives the caller tasks or has open ones with it; others' replies add to it.
  void SetMain(PollReply reply) {
    Note(reply);
    main_ = std::move(reply);
  }
  void Add(const StatusOr<PollReply>& reply) {
    if (!reply.ok()) {
      if (error_.ok()) error_ = reply.status();
      return;
    }
    Note(*reply);
    if (reply->over) return;
    waits_ = true;
    if (wait_ms_ == 0 || reply->wait_ms < wait_ms_) wait_ms_ = reply->wait_ms;
    if (!sentence_.empty()) sentence_ += "; ";
    sentence_ += reply->awaited.sentence;
  }

  StatusOr<PollReply> Finish(const PollRequest& request) && {
    if (!main_ && !waits_ && !over_ && !error_.ok()) return error_;
    PollReply reply = main_ ? *std::move(main_) : PollReply{};
    if (never_over_ && !waits_) {
      waits_ = true;
      wait_ms_ = kNextRunMs;
      sentence_ = kAwaitsNextRun;
    }
    reply.outcomes = std::move(outcomes_);
    if (reply.over && waits_) {
      // Its tasks are cancelled, and other runs may have work for it.
      reply.over.reset();
      CancelAll(request, reply);
      reply.wait_ms = wait_ms_;
    } else if (!reply.over && reply.tasks.empty() && request.working_on.empty()) {
      reply.wait_ms = wait_ms_;
      reply.awaited.sentence = std::move(sentence_);
      if (!waits_) reply.over = std::move(over_);
    }
    return reply;
  }

 private:
  void Note(const PollReply& reply) {
    outcomes_.insert(outcomes_.end(), reply.outcomes.begin(), reply.outcomes.end());
    if (reply.over && (!over_ || (reply.over->failed && !over_->failed))) over_ = reply.over;
  }

  const bool never_over_;
  std::optional<PollReply> main_;
  std::vector<TaskOutcome> outcomes_;
  bool waits_ = false;
  int64_t wait_ms_ = 0;
  std::string sentence_;
  std::optional<PollReply::Over> over_;  // of a run that failed, else of the first that is over
  Status error_;
};

PollRequest ToRun(const PollRequest& request, const Coordinator& run) {
  PollRequest asked = request;
  asked.caller.run_id = run.run_id();
  return asked;
}

}  // namespace

CoordinatorHost::Runs CoordinatorHost::runs() const {
  MutexLock lock(mutex_);
  return runs_;
}

StatusOr<CoordinatorHost::Runs> CoordinatorHost::RunsOf(const Caller& caller) const {
  Runs all = runs();
  if (caller.run_id.empty()) return all;
  const auto named = std::ranges::find(all, caller.run_id, [](const auto& run) { return run->run_id(); });
  if (named == all.end()) return NotFound("run '{}' is not served here", caller.run_id);
  return Runs{*named};
}

Status CoordinatorHost::Add(std::shared_ptr<Coordinator> run) {
  MutexLock lock(mutex_);
  for (const auto& other : runs_) {
    if (other->run_id() == run->run_id()) return AlreadyExists("run '{}' is served here already", run->run_id());
  }
  run->SetListener(listener_);
  runs_.push_back(std::move(run));
  if (listener_ != nullptr) listener_->OnNews("");  // for callers that wait for the next run
  return absl::OkStatus();
}

Status CoordinatorHost::WaitForAll() {
  Status first;
  for (const auto& run : runs()) {
    const Status status = run->Wait();
    if (first.ok()) first = status;
  }
  return first;
}

void CoordinatorHost::Stop() {
  for (const auto& run : runs()) run->Stop();
}

// A caller with a task continues with it: the other runs are only notified of it, since they would otherwise count it
// as absent after a long training. A caller without a task takes the first that a run gives.
StatusOr<PollReply> CoordinatorHost::Poll(const PollRequest& request) {
  Runs order = runs();
  const auto own = std::ranges::find(order, request.caller.run_id, [](const auto& run) { return run->run_id(); });
  if (own == order.end() && !request.caller.run_id.empty()) {
    return NotFound("run '{}' is not served here", request.caller.run_id);
  }
  if (outlives_runs_) {
    // A task of a stopped run is of no use to this process.
    const bool idle = order.empty() || request.working_on.empty();
    if (own != order.end() && !idle && (*own)->stopped()) {
      PollReply reply{.wait_ms = 1, .awaited = {kAwaitsNextRun}};
      CancelAll(request, reply);
      return reply;
    }
  } else if (order.empty()) {
    return Unavailable("no run is served here yet; ask again");
  } else if (order.size() == 1) {
    return order[0]->Poll(request);
  }
  if (request.serves.kind != Serves::Kind::kItself && !order.empty()) {
    return PollOfMany(request, order, own == order.end() ? nullptr : own->get());
  }

  MergedReply merged(outlives_runs_);
  const bool busy = own != order.end() && !request.working_on.empty();
  if (own != order.end()) std::rotate(order.begin(), std::next(own), order.end());  // its own run last
  if (busy) {
    RIVULET_ASSIGN_OR_RETURN(PollReply reply, order.back()->Poll(request));
    merged.SetMain(std::move(reply));
    order.pop_back();
  }
  for (const auto& run : order) {
    if (outlives_runs_ && run->stopped()) continue;
    PollRequest asked = ToRun(request, *run);
    asked.working_on.clear();
    if (busy) asked.want = 0;
    StatusOr<PollReply> reply = run->Poll(asked);
    if (!reply.ok() || reply->tasks.empty()) {
      merged.Add(reply);
      continue;
    }
    merged.SetMain(*std::move(reply));
    break;
  }
  return std::move(merged).Finish(request);
}

// A run that is over reports once to an aggregator how its clients' last tasks ended, and then NOT_FOUND: the
// aggregator drops the run and asks for the next.
StatusOr<PollReply> CoordinatorHost::PollOfMany(const PollRequest& request, const Runs& all, Coordinator* own) const {
  const auto next = std::ranges::find_if(all, [](const auto& run) { return !run->over(); });
  const bool goes_on = next != all.end() || outlives_runs_;
  if (own == nullptr) {
    if (!goes_on) return all.front()->Poll(request);
    if (next == all.end()) return MergedReply(outlives_runs_).Finish(request);
    own = next->get();
  }
  if (request.serves.kind != Serves::Kind::kNames || !goes_on || !own->over()) return own->Poll(request);
  if (request.caller.run_id.empty()) return MergedReply(outlives_runs_).Finish(request);  // it ended just now
  RIVULET_ASSIGN_OR_RETURN(PollReply reply, own->Poll(request));
  if (reply.outcomes.empty()) return NotFound("run '{}' is over; ask for the next", own->run_id());
  reply.over.reset();
  reply.wait_ms = 1;
  CancelAll(request, reply);
  return reply;
}

template <typename Ask>
auto CoordinatorHost::AskEach(const Caller& caller, const Ask& ask) const
    -> decltype(ask(std::declval<Coordinator&>())) {
  RIVULET_ASSIGN_OR_RETURN(const Runs runs, RunsOf(caller));
  if (runs.empty()) return NotFound("no run is served here yet");
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    auto answer = ask(*runs[i]);
    if (answer.ok()) return answer;
    const Status& status = [&]() -> const Status& {
      if constexpr (std::is_same_v<decltype(answer), Status>) {
        return answer;
      } else {
        return answer.status();
      }
    }();
    if (!absl::IsNotFound(status)) return answer;
  }
  return ask(*runs.back());
}

StatusOr<std::unique_ptr<ChunkReader>> CoordinatorHost::Fetch(const Caller& caller, const BlobId& blob,
                                                              int64_t offset) {
  return AskEach(caller, [&](Coordinator& run) { return run.Fetch(caller, blob, offset); });
}

StatusOr<std::unique_ptr<ChunkWriter>> CoordinatorHost::Submit(const Caller& caller, const Submission& submission) {
  return AskEach(caller, [&](Coordinator& run) -> StatusOr<std::unique_ptr<ChunkWriter>> {
    // With "retry later", its client would retry forever, and work for no other run.
    if (outlives_runs_ && run.stopped()) return NotFound("run '{}' was stopped", run.run_id());
    return run.Submit(caller, submission);
  });
}

Status CoordinatorHost::Fail(const Caller& caller, const TaskFailure& failure) {
  return AskEach(caller, [&](Coordinator& run) { return run.Fail(caller, failure); });
}

// No caller can wait for two runs: one that names no run polls again at once if there are several.
void CoordinatorHost::AwaitWork(const Caller& caller, uint64_t epoch, int64_t timeout_ms) {
  const StatusOr<Runs> runs = RunsOf(caller);
  if (runs.ok() && runs->size() == 1) return runs->front()->AwaitWork(caller, epoch, timeout_ms);
  CoordinatorApi::AwaitWork(caller, epoch, timeout_ms);
}

void CoordinatorHost::SetListener(NewsListener* listener) {
  MutexLock lock(mutex_);
  listener_ = listener;
  for (const auto& run : runs_) run->SetListener(listener);
}

StatusOr<SubmitResult> CoordinatorHost::SubmitInPlace(const Caller& caller, Partial&& partial,
                                                      std::span<const TaskRecord> records) {
  RIVULET_ASSIGN_OR_RETURN(const Runs runs, RunsOf(caller));
  if (runs.size() != 1) return InvalidArgument("site '{}' names no run for its partial sum", caller.name);
  return runs.front()->SubmitInPlace(caller, std::move(partial), records);
}

StatusOr<std::shared_ptr<const Model>> CoordinatorHost::FetchInPlace(const Caller& caller, const BlobId& blob) {
  return AskEach(caller, [&](Coordinator& run) { return run.FetchInPlace(caller, blob); });
}

}  // namespace rivulet
