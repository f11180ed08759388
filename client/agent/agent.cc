#include "client/agent/agent.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "client/calls/heartbeat.h"

namespace rivulet {
namespace {

// A restarted coordinator must be noticed within five seconds: after two such waits, of which the first may overlap the
// connection's own pause between two tries.
constexpr int64_t kLongestBetweenTriesMs = 2500;

// Interval of checks while the machine is busy.
constexpr int64_t kAskAgainMs = 10'000;

// Between two polls for the next step of a task, if the coordinator does not hold polls.
constexpr int64_t kMostBetweenSteps = 1000;

BackoffOptions OfCalls(BackoffOptions options) {
  options.max_ms = std::min(options.max_ms, kLongestBetweenTriesMs);
  return options;
}

}  // namespace

Agent::Agent(CoordinatorApi& api, AgentOptions options)
    : api_(api),
      options_(std::move(options)),
      artifacts_(options_.artifacts ? options_.artifacts : std::make_shared<ArtifactCache>()),
      stop_(options_.sleep),
      session_(uint64_t{std::random_device()()} << 32 | std::random_device()()) {}

Status Agent::Run() {
  EnterWorkerThread();
  const AgentObserver& observer = options_.observer;
  CallOptions calls{.backoff = OfCalls(options_.backoff),
                    .chunk_bytes = options_.chunk_bytes,
                    .max_upload_rate = options_.max_upload_rate,
                    .on_retry = observer.on_retry};
  if (options_.memory_budget > 0) calls.max_plan_bytes = calls.max_download_bytes = options_.memory_budget;
  std::optional<SecureTasks> secure;
  std::optional<Heartbeat> heartbeat;  // destroyed first: it answers steps
  if (options_.secure != nullptr) {
    secure.emplace(api_, stop_, calls, *options_.secure, [&heartbeat] { heartbeat->StepsBegan(); });
  }
  StepWork* const steps = secure ? &*secure : nullptr;
  heartbeat.emplace(api_, stop_);
  TaskRunner runner(api_, *artifacts_, stop_,
                    {.calls = std::move(calls),
                     .instruments = options_.instruments,
                     .states = options_.states.get(),
                     .memory_budget = options_.memory_budget,
                     .available_memory = options_.available_memory,
                     .persisted = options_.persisted.get(),
                     .checkpoint = options_.checkpoint.get(),
                     .ledger = options_.ledger.get(),
                     .examples = options_.examples.get(),
                     .trainers = options_.trainers,
                     .secure = secure ? &*secure : nullptr,
                     .receipts = options_.receipts.get()});
  PollRequest request;
  request.caller = {.name = options_.client_id, .certificate_serial = options_.certificate_serial, .session = session_};
  request.capabilities.version = options_.version;
  // The number of examples is stated unless the run's sums hide it, which is known from its plan.
  const bool may_hide = secure.has_value(), hides = may_hide && options_.secure->hides_examples;
  bool hidden = may_hide;
  const auto offer = [&](bool hide) {
    hidden = hide;
    request.capabilities.datasets = OffersOf(options_.data);
    if (hide) request.capabilities.datasets = WithoutNumbers(std::move(request.capabilities.datasets));
  };
  offer(may_hide);
  request.hold_ms = options_.hold_ms;
  Caller& caller = request.caller;
  // After failed tasks: the coordinator may offer the same one again at once, and the client must not
  // spin.
  Backoff idle(options_.backoff, caller.name);
  Backoff unsent(options_.backoff, caller.name);  // after answers to steps that could not be sent
  int64_t beat_ms = 0;                            // heartbeat interval of a client with a task
  // Sleep's answer: false, stopped.
  const auto settle = [&](const Task& task, const TaskReport& report) {
    if (observer.on_report) observer.on_report(task, report);
    if (report.kind == TaskReport::Kind::kAccepted || report.kind == TaskReport::Kind::kDuplicate) {
      idle.Reset();
      return true;
    }
    return stop_.Sleep(idle.NextMs());
  };
  for (;;) {
    request.working_on.clear();
    request.hold_ms = options_.hold_ms;
    if (secure) {
      secure->Answer(caller, true);
      if (secure->HasLongAnswer()) SendWords(*secure, *heartbeat, request, beat_ms);
      for (const auto& [task, report] : secure->TakeEnded()) {
        if (!settle(task, report)) return Cancelled("stopped");
      }
      RIVULET_RETURN_IF_ERROR(secure->rejected());
      request.working_on = secure->InHand();
      if (!request.working_on.empty() && beat_ms > 0) request.hold_ms = std::min(request.hold_ms, beat_ms);
      if (secure->HasUnsent()) {
        request.hold_ms = 0;
      } else {
        unsent.Reset();
      }
    }
    // A long poll may be answered after its task; the end of the run is sent to it alone.
    if (const std::optional<PollReply::Over> over = heartbeat->over()) {
      runner.CollectReceipts(caller);
      TellOver(*over, caller.run_id);
      return absl::OkStatus();
    }
    const std::string why = options_.unwilling ? options_.unwilling() : "";
    request.want = why.empty() ? 1 : 0;
    // Other clients of a secure sum wait for its steps, which are little work.
    if (!why.empty() && request.working_on.empty()) {
      if (observer.on_wait) observer.on_wait({why}, kAskAgainMs);
      if (!stop_.Sleep(kAskAgainMs)) return Cancelled("stopped");
      continue;
    }
    const StatusOr<PollReply> polled = runner.Poll(request);
    if (absl::IsNotFound(polled.status()) && !caller.run_id.empty()) {
      caller.run_id.clear();  // the coordinator serves another run by now: this client works for that one
      offer(may_hide);
      continue;
    }
    // A run that requires clients with so many examples has no secure sums.
    if (absl::IsInvalidArgument(polled.status()) && hidden && !hides) {
      offer(false);
      continue;
    }
    if (!polled.ok() && heartbeat->over()) continue;
    RIVULET_RETURN_IF_ERROR(polled.status());
    const PollReply& reply = *polled;
    if (secure) secure->Take(caller, reply, true);
    for (const TaskOutcome& outcome : reply.outcomes) {
      if (outcome.durable && outcome.end == TaskEnd::kFolded) runner.CollectReceipt(caller, outcome.task);
      Settle(outcome, caller.run_id);
    }
    if (observer.on_outcome) {
      for (const TaskOutcome& outcome : reply.outcomes) observer.on_outcome(outcome);
    }
    if (reply.over) {
      runner.CollectReceipts(caller);
      TellOver(*reply.over, caller.run_id);
      return absl::OkStatus();
    }
    request.told = reply.tasks.empty();
    if (reply.tasks.empty()) {
      const int64_t most_ms = request.working_on.empty() ? options_.backoff.max_ms : kMostBetweenSteps;
      int64_t wait_ms = std::clamp<int64_t>(reply.wait_ms, 1, std::max<int64_t>(most_ms, 1));
      if (secure && secure->HasUnsent()) wait_ms = std::min(wait_ms, unsent.NextMs());
      if (observer.on_wait) observer.on_wait(reply.awaited, wait_ms);
      if (!stop_.Sleep(wait_ms)) return Cancelled("stopped");
    }
    for (const Task& task : reply.tasks) {
      beat_ms = reply.wait_ms;
      // Its next step, which was taken already.
      if (std::ranges::find(request.working_on, task.id, &TaskProgress::task) != request.working_on.end()) continue;
      caller.run_id = task.run_id;
      if (observer.on_task) observer.on_task(task);
      stop_.BeginTask();
      heartbeat->Begin(request, task.id, reply.wait_ms, steps);
      const StatusOr<TaskReport> done = runner.Run(caller, task, options_.data);
      heartbeat->End();
      stop_.BeginTask();  // the end of this task must not cancel the next poll
      if (const std::optional<bool> secure = runner.sums_securely()) offer(hides || (may_hide && *secure));
      RIVULET_ASSIGN_OR_RETURN(const TaskReport report, done);
      if (report.kind == TaskReport::Kind::kInSteps) continue;
      if (heartbeat->over()) {
        if (observer.on_report) observer.on_report(task, report);
      } else if (!settle(task, report)) {
        return Cancelled("stopped");
      }
    }
  }
}

void Agent::SendWords(SecureTasks& secure, Heartbeat& heartbeat, const PollRequest& request, int64_t beat_ms) {
  PollRequest beat = request;
  beat.working_on = secure.InHand();
  stop_.BeginTask();
  heartbeat.Begin(beat, beat.working_on.at(0).task, beat_ms);
  secure.Answer(request.caller, false);
  heartbeat.End();
  stop_.BeginTask();
}

// A failed run may be resumed, and then asks for updates that it had not written.
void Agent::TellOver(const PollReply::Over& over, const std::string& run_id) {
  if (options_.persisted != nullptr && !over.failed && !run_id.empty()) options_.persisted->RunIsOver(run_id);
  if (options_.observer.on_over) options_.observer.on_over(over);
}

// Sent until it is asked for no more; a repetition changes nothing.
void Agent::Settle(const TaskOutcome& outcome, const std::string& run_id) {
  if (options_.persisted != nullptr) options_.persisted->Settle(outcome);
  if (options_.states == nullptr || run_id.empty()) return;
  if (outcome.end != TaskEnd::kFolded) {
    options_.states->Forget(run_id, options_.client_id, outcome.task);
  } else if (outcome.durable && settled_ != outcome.task) {
    options_.states->Durable(run_id, options_.client_id, outcome.task);
    settled_ = outcome.task;
  }
}

}  // namespace rivulet
