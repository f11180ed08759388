#include "cli/run/show_plan.h"

#include <algorithm>

#include "client/agent/plan_facts.h"
#include "client/calls/coordinator_calls.h"
#include "engine/base/table.h"

namespace rivulet {

StatusOr<std::shared_ptr<const Plan>> OfferedPlan(CoordinatorApi& api, StopSignal& stop, const PollRequest& request,
                                                  int64_t memory_budget,
                                                  const std::function<void(const std::string& sentence)>& tell) {
  CallOptions options;
  if (memory_budget > 0) options.max_plan_bytes = options.max_download_bytes = memory_budget;
  options.on_retry = [&tell](const Status& status, int64_t) { tell(std::string(Message(status))); };
  CoordinatorCalls calls(api, stop, std::move(options));
  PollRequest asked = request;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const PollReply reply, calls.Poll(asked));
    if (reply.over) return Aborted("there is no plan to show: {}", reply.over->sentence);
    if (!reply.tasks.empty()) {
      asked.caller.run_id = reply.tasks[0].run_id;
      RIVULET_ASSIGN_OR_RETURN(std::string bytes, calls.FetchPlan(asked.caller, reply.tasks[0].plan));
      return Plan::Open(std::move(bytes));
    }
    if (!asked.told) tell(fmt::format("waiting: {}", reply.awaited.sentence));
    asked.told = true;
    if (!stop.Sleep(std::clamp<int64_t>(reply.wait_ms, 1, 15'000))) return Cancelled("stopped");
  }
}

void PrintPlan(const Plan& plan, const SitePolicy& policy, bool json) {
  Fields fields;
  for (auto& [name, text] : TellPlan(plan)) fields.emplace_back(std::move(name), std::move(text));
  const Status willing = CheckPlan(policy, plan);
  fields.emplace_back("this_site", willing.ok() ? "would run it" : fmt::format("refuses it: {}", Message(willing)));
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
}

}  // namespace rivulet
