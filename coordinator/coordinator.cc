#include "coordinator/coordinator.h"

#include "coordinator/run_parts.h"

namespace rivulet {

StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(CoordinatorOptions options) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, Plan::Open(options.plan));
  RunParts parts;
  parts.plan = std::shared_ptr<const std::string>(plan, &plan->bytes());
  parts.plan_digest = plan->digest();
  parts.layout = plan->layout();
  parts.aggregation = plan->aggregation();
  parts.initial_model = [plan, seed = options.scenario.run.seed]() -> StatusOr<std::shared_ptr<const Model>> {
    return InitialModel(*plan, seed);
  };
  options.plan.clear();  // the opened plan holds the bytes
  return CreateCoordinator(std::move(options), std::move(parts));
}

}  // namespace rivulet
