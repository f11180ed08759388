// From a scenario and a model to what its algorithm makes of them.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

// How tasks and versions follow each other, once parts and state are known. What an update may be late is refused where
// it would have no meaning, and not ignored.
Status SetDial(const ServerConfig& server, Composition& composition) {
  Dial& dial = composition.dial;
  if (!server.base.empty()) dial.base = server.base == "latest" ? Dial::Base::kLatest : Dial::Base::kCommitted;
  dial.in_flight = server.in_flight > 0 ? server.in_flight : server.clients_per_round;
  if (dial.base == Dial::Base::kCommitted) {
    if (server.in_flight > 0 && server.in_flight != server.clients_per_round) {
      return InvalidArgument(
          "server.in_flight is {}, and server.base \"committed\": the {} clients of a round train together; leave it "
          "out, or set server.base to \"latest\"",
          server.in_flight, server.clients_per_round);
    }
    return absl::OkStatus();
  }
  if (composition.aggregation.rule != "mean") {
    return InvalidArgument(
        "server.base is \"latest\", and the aggregation rule '{}' looks at all updates of a version side by side, "
        "which "
        "must start from one version; set it to \"committed\"",
        composition.aggregation.rule);
  }
  if (!composition.state.empty()) {
    return InvalidArgument(
        "server.base is \"latest\", and this algorithm's clients keep '{}' from task to task: a client may begin its "
        "next task before its last one is in a version; set it to \"committed\"",
        composition.state[0].name);
  }
  dial.max_staleness = server.max_staleness;
  dial.staleness_exponent = server.staleness_exponent;
  composition.aggregation.staleness_bits = kStalenessBits;
  return absl::OkStatus();
}

}  // namespace

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
  RIVULET_RETURN_IF_ERROR(SetDial(scenario.server, composition));
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
  const EvaluationConfig& evaluation = scenario.evaluation;
  if (layout.elements(Segment::kLocal) > 0 && (evaluation.every > 0 || evaluation.federated_every > 0)) {
    return InvalidArgument(
        "the model has local variables, of which no version has values to be measured with; set evaluation.every and "
        "evaluation.federated_every to 0");
  }
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
