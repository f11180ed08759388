#include "cli/run/blame_model.h"

#include "cli/command.h"
#include "federated/plan/plan.h"
#include "simulations/scenario_model.h"

namespace rivulet {

Status BlameModel(const Scenario& scenario, Status error) {
  if (Message(error).starts_with("model.freeze")) return AsUsageError(std::move(error));
  const bool written_here = scenario.model.graph.empty() && scenario.model.onnx.empty();
  if (!written_here || (!absl::IsInvalidArgument(error) && !absl::IsNotFound(error))) return error;
  const StatusOr<ModelDef> model = ModelOf(scenario);
  const Status again = model.ok() ? BuildPlan(scenario, *model).status() : model.status();
  return Message(again) == Message(error) ? AsUsageError(std::move(error)) : error;
}

}  // namespace rivulet
