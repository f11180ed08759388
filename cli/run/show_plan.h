// Option --show-plan: the work of a plan at this site, without doing it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/agent/site_policy.h"
#include "client/calls/stop_signal.h"
#include "federated/plan/plan.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// The plan of the coordinator's first task for the caller of `request`, after a wait like a client's; `tell` receives
// the reason of the wait. The task is not begun: it stays the caller's for its lease. ABORTED: the run is over.
// CANCELLED after Stop. FAILED_PRECONDITION: the plan has more than `memory_budget` bytes (0: kMaxPlanBytes). Other
// errors are the coordinator's, or Plan::Open's.
StatusOr<std::shared_ptr<const Plan>> OfferedPlan(CoordinatorApi& api, StopSignal& stop, const PollRequest& request,
                                                  int64_t memory_budget,
                                                  const std::function<void(const std::string& sentence)>& tell);

// Prints its work and the decision of `policy` on stdout, as text or as one JSON object.
void PrintPlan(const Plan& plan, const SitePolicy& policy, bool json);

}  // namespace rivulet
