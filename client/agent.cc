#include "client/agent.h"

#include <algorithm>
#include <utility>

namespace rivulet {

Agent::Agent(CoordinatorApi& api, AgentOptions options)
    : api_(api),
      options_(std::move(options)),
      artifacts_(options_.artifacts ? options_.artifacts : std::make_shared<ArtifactCache>()),
      stop_(options_.sleep) {}

Status Agent::Run() {
  EnterWorkerThread();
  const AgentObserver& observer = options_.observer;
  TaskRunner runner(api_, *artifacts_, stop_,
                    {options_.backoff, options_.chunk_bytes, observer.on_retry, options_.instruments});
  Caller caller{options_.client_id, options_.certificate_serial, ""};
  const Capabilities capabilities{options_.version, {options_.data.name}, options_.data.size()};
  // After tasks that came to nothing: the coordinator may offer the same again at once, and nobody wants to see it
  // spin.
  Backoff idle(options_.backoff, caller.name);
  for (;;) {
    const StatusOr<PollReply> polled = runner.Poll(caller, capabilities);
    if (absl::IsNotFound(polled.status()) && !caller.run_id.empty()) {
      caller.run_id.clear();  // the coordinator serves another run by now: this client works for that one
      continue;
    }
    RIVULET_RETURN_IF_ERROR(polled.status());
    const PollReply& reply = *polled;
    if (observer.on_outcome) {
      for (const TaskOutcome& outcome : reply.outcomes) observer.on_outcome(outcome);
    }
    switch (reply.kind) {
      case PollReply::Kind::kFinished:
        if (observer.on_finished) observer.on_finished(reply.message);
        return absl::OkStatus();
      case PollReply::Kind::kWait: {
        const int64_t wait_ms = std::clamp<int64_t>(reply.wait_ms, 1, std::max<int64_t>(options_.backoff.max_ms, 1));
        if (observer.on_wait) observer.on_wait(reply.message, wait_ms);
        if (!stop_.Sleep(wait_ms)) return Cancelled("stopped");
        break;
      }
      case PollReply::Kind::kTask: {
        const Task& task = *reply.task;
        caller.run_id = task.run_id;
        if (observer.on_task) observer.on_task(task);
        RIVULET_ASSIGN_OR_RETURN(const TaskReport report, runner.Run(caller, task, options_.data));
        if (observer.on_report) observer.on_report(task, report);
        if (report.kind == TaskReport::Kind::kAccepted || report.kind == TaskReport::Kind::kDuplicate) {
          idle.Reset();
        } else if (!stop_.Sleep(idle.NextMs())) {
          return Cancelled("stopped");
        }
        break;
      }
    }
  }
}

}  // namespace rivulet
