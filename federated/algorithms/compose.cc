// From a scenario and a model to what its algorithm makes of them.
#include "federated/algorithms/algorithm.h"

namespace rivulet {

StatusOr<Composition> Compose(const Scenario& scenario, const ModelLayout& layout) {
  RIVULET_ASSIGN_OR_RETURN(const Algorithm* algorithm, FindAlgorithm(scenario.algorithm.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings,
                           Settings::Read(algorithm->settings, scenario.algorithm.settings,
                                          fmt::format("[algorithm] name = \"{}\"", algorithm->name)));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, algorithm->build({scenario, layout, settings}));
  // The bounds go along, so a client can tell that its update would be refused, and a coordinator that is started with
  // the plan alone sums with the same resolution.
  AggregationSpec& spec = composition.aggregation;
  if (spec.parts.empty()) {
    spec.parts.emplace_back();
    spec.parts[0].value_bits = static_cast<int>(scenario.server.value_bits);
    if (scenario.server.weights == "uniform") spec.parts[0].weigh = "one";
  }
  for (PartSpec& part : spec.parts) {
    const auto source = composition.parts.find(part.name);
    const bool shared_too = source != composition.parts.end() && source->second.shared_too;
    part.codec = scenario.update.codec;
    part.elements = shared_too ? layout.update_elements() : layout.parameters();
  }
  spec.updates_per_version = scenario.server.clients_per_round;
  spec.max_weight = scenario.server.max_weight;
  RIVULET_RETURN_IF_ERROR(ValidateSpec(spec));
  const PrivacyConfig& privacy = scenario.privacy;
  if (privacy.clip > 0) composition.mechanisms.push_back({"clip", {{"norm", privacy.clip}}});
  if (privacy.clip > 0 && privacy.noise > 0) {
    composition.mechanisms.push_back(
        {"noise", {{"deviation", privacy.noise * privacy.clip}, {"source", privacy.noise_source}}});
  }
  return composition;
}

StatusOr<std::shared_ptr<const Plan>> ComposePlan(const Scenario& scenario, const ModelDef& model) {
  RIVULET_ASSIGN_OR_RETURN(const ModelLayout layout, ModelLayoutOf(model));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, Compose(scenario, layout));
  if (scenario.evaluation.federated_every > 0) {
    RIVULET_ASSIGN_OR_RETURN(composition.evaluation, FederatedEvaluation(model, scenario.evaluation.batch_size));
  }
  return Plan::Build(scenario, model, composition);
}

StatusOr<std::string> BuildPlan(const Scenario& scenario, const ModelDef& model) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, ComposePlan(scenario, model));
  return plan->bytes();
}

}  // namespace rivulet
