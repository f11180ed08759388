// Composition of a scenario and a model by the scenario's algorithm.
#include <algorithm>

#include "engine/graph/variable_name.h"
#include "federated/algorithms/adapter_rule.h"
#include "federated/algorithms/algorithm.h"
#include "federated/algorithms/most_updates.h"
#include "federated/algorithms/secure_sums.h"
#include "federated/algorithms/take_rule.h"
#include "federated/server_optimizers/server_rate.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

// Sets the order of tasks and versions, once parts and state are known. Settings for late updates are refused, not
// ignored, if they would have no effect.
Status SetDial(const ServerConfig& server, const ModelLayout& layout, Composition& composition) {
  TaskPolicy& policy = composition.policy;
  if (!server.base.empty())
    policy.base = server.base == "latest" ? TaskPolicy::Base::kLatest : TaskPolicy::Base::kCommitted;
  policy.in_flight = server.in_flight > 0 ? server.in_flight : server.clients_per_round;
  if (policy.base == TaskPolicy::Base::kCommitted) {
    if (server.in_flight > 0 && server.in_flight != server.clients_per_round) {
      return InvalidArgument(
          "server.in_flight is {}, and server.base \"committed\": the {} clients of a round train together; leave it "
          "out, or set server.base to \"latest\"",
          server.in_flight, server.clients_per_round);
    }
    return absl::OkStatus();
  }
  if (server.over_selection > 1) {
    return InvalidArgument(
        "server.over_selection is {}, and server.base \"latest\", where no round waits; leave it out, and set the "
        "number of concurrent clients by server.in_flight",
        server.over_selection);
  }
  if (composition.aggregation.rule != "mean") {
    return InvalidArgument(
        "server.base is \"latest\", and the aggregation rule '{}' looks at all updates of a version side by side, "
        "which must start from one version; set it to \"committed\"",
        composition.aggregation.rule);
  }
  if (!composition.state.empty()) {
    return InvalidArgument(
        "server.base is \"latest\", and this algorithm's clients keep '{}' from task to task. A client may begin its "
        "next task before its last one is in a version; set server.base to \"committed\"",
        composition.state[0].name);
  }
  if (layout.segment_bytes(Segment::kLocal) > 0) {
    return InvalidArgument(
        "server.base is \"latest\", and clients keep personal layers (model.personal) from task to task. A client may "
        "begin its next task before its last one is in a version; set server.base to \"committed\"");
  }
  if (std::ranges::any_of(composition.aggregation.parts, &PartSpec::error_feedback)) {
    return InvalidArgument(
        "server.base is \"latest\", and clients add the values left out of an update to their next one. The next task "
        "may begin before the last one is in a version; set server.base to \"committed\", or update.error_feedback to "
        "false");
  }
  policy.max_staleness = server.max_staleness;
  policy.staleness_exponent = server.staleness_exponent;
  composition.aggregation.staleness_bits = kStalenessBits;
  return absl::OkStatus();
}

// The values that error feedback adds to later updates are not clipped: a client's updates could exceed the clip.
Status ChooseCodec(const Scenario& scenario, PartSpec& part) {
  const UpdateConfig& update = scenario.update;
  part.codec = update.codec;
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* table, FindSettingTable("codec", update.codec));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings, ReadOwn(*table, update.settings, "[update]"));
  for (const auto& [name, value] : settings.values()) part.codec_settings[name] = std::get<double>(value);
  part.error_feedback = table->HasTrait(kLosesInTheMean) && update.error_feedback;
  if (!part.error_feedback || scenario.privacy.clip == 0) return absl::OkStatus();
  return InvalidArgument(
      "update.codec = \"{}\" adds the rest of earlier updates to an update, which may then exceed privacy.clip; set "
      "update.error_feedback = false, or privacy.clip = 0",
      update.codec);
}

// Sets clipping and noise for single gradients; updates are not changed. CheckExampleTraining makes the other checks of
// such plans.
Status ProtectExamples(const Scenario& scenario, Composition& composition) {
  const PrivacyConfig& privacy = scenario.privacy;
  const auto refuse = [](std::string_view why) { return InvalidArgument("privacy.unit is \"example\", and {}", why); };
  if (privacy.clip == 0) return refuse("privacy.clip is 0; set it to the largest norm of one example's gradient");
  if (privacy.noise == 0) return refuse("privacy.noise is 0; set it to the noise of a step over the clip, such as 1.0");
  if (composition.noise.any() || composition.sent_in_clips) {
    return refuse(fmt::format("[algorithm] name = \"{}\" clips updates by the same keys; choose \"fedavg\"",
                              scenario.algorithm.name));
  }
  if (scenario.secure.on()) return refuse("privacy.secure needs clipped updates; set it to \"none\"");
  if (scenario.evaluation.federated_every > 0) {
    return refuse("clients would measure versions without noise; set evaluation.federated_every to 0");
  }
  composition.mechanisms.push_back({"example_gaussian",
                                    {{"clip", privacy.clip},
                                     {"multiplier", privacy.noise},
                                     {"epsilon", privacy.epsilon},
                                     {"delta", privacy.delta},
                                     {"source", privacy.noise_source}}});
  return absl::OkStatus();
}

}  // namespace

StatusOr<Composition> Compose(const Scenario& scenario, const ModelLayout& layout) {
  RIVULET_ASSIGN_OR_RETURN(const Algorithm* algorithm, FindAlgorithm(scenario.algorithm.name));
  RIVULET_ASSIGN_OR_RETURN(const Settings settings,
                           Settings::Read(algorithm->settings, OptionsOf(*algorithm, scenario),
                                          fmt::format("[algorithm] name = \"{}\"", algorithm->name)));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, algorithm->build({scenario, layout, settings}));
  // The plan contains the bounds, so a client can tell that its update would be refused, and a coordinator started with
  // the plan alone uses the same resolution.
  AggregationSpec& spec = composition.aggregation;
  if (spec.parts.empty()) {
    spec.parts.emplace_back();
    spec.parts[0].value_bits = static_cast<int>(scenario.server.value_bits);
    if (scenario.server.weights == "uniform") spec.parts[0].weigh = "one";
  }
  for (PartSpec& part : spec.parts) {
    const auto source = composition.parts.find(part.name);
    const bool shared_too = source != composition.parts.end() && source->second.shared_too;
    RIVULET_RETURN_IF_ERROR(ChooseCodec(scenario, part));
    part.elements = shared_too ? layout.update_elements() : layout.parameters();
    part.sum_bits = static_cast<int>(scenario.server.sum_bits);
  }
  if (scenario.server.sum_bits != 64 && spec.rule != "mean") {
    return InvalidArgument(
        "server.sum_bits is {}, and the aggregation rule '{}' keeps updates instead of sums; set it to 64",
        scenario.server.sum_bits, spec.rule);
  }
  RIVULET_RETURN_IF_ERROR(SetDial(scenario.server, layout, composition));
  RIVULET_RETURN_IF_ERROR(SetSecureSums(scenario, composition));
  RIVULET_RETURN_IF_ERROR(ComposeAdapters(scenario, layout, composition));
  spec.updates_per_version = MostUpdatesOf(scenario);
  spec.max_weight = scenario.server.max_weight;
  RIVULET_RETURN_IF_ERROR(ValidateSpec(spec));
  const PrivacyConfig& privacy = scenario.privacy;
  if (privacy.unit == "example") {
    RIVULET_RETURN_IF_ERROR(ProtectExamples(scenario, composition));
    return composition;
  }
  if (const CentralNoise& noise = composition.noise; noise.local()) {
    composition.mechanisms.push_back({"discrete_laplace",
                                      {{"fraction_bits", static_cast<double>(noise.fraction_bits)},
                                       {"clip_units", static_cast<double>(noise.clip_units)},
                                       {"scale", static_cast<double>(noise.laplace_scale)},
                                       {"source", std::string(noise.seeded ? "seeded" : "secure")}}});
    return composition;
  }
  if (privacy.clip > 0 && !composition.sent_in_clips)
    composition.mechanisms.push_back({"clip", {{"norm", privacy.clip}}});
  if (const CentralNoise& noise = composition.noise; noise.by_clients()) {
    composition.mechanisms.push_back({"discrete_gaussian",
                                      {{"fraction_bits", static_cast<double>(noise.fraction_bits)},
                                       {"parameter", noise.each},
                                       {"source", std::string(noise.seeded ? "seeded" : "secure")}}});
    // Otherwise the plan stays compatible with older clients.
    if (noise.count_units > 0) {
      composition.mechanisms.back().settings["count_units"] = static_cast<double>(noise.count_units);
    }
  }
  if (privacy.clip > 0 && privacy.noise > 0) {
    composition.mechanisms.push_back(
        {"noise", {{"deviation", privacy.noise * privacy.clip}, {"source", privacy.noise_source}}});
  }
  return composition;
}

namespace {

// Clients with external training ignore a plan's changes of training, so algorithms that need such changes are refused
// instead of running without them.
Status CheckLeavesTrainingAlone(const Scenario& scenario, const Composition& composition) {
  const auto plain = [](const PassBuilder& pass) {
    return pass.models == std::vector<ModelInstance>(1) && !pass.loss && !pass.gradient && !pass.at_end &&
           pass.epochs == 0 && pass.batch_size == 0;
  };
  const auto of_params = [](const auto& part) {
    return part.second.from == "params" && (part.second.less.empty() || part.second.less == "base_params");
  };
  if (composition.passes.size() == 1 && plain(composition.passes[0]) && composition.state.empty() &&
      composition.broadcast.empty() && composition.numbers.empty() &&
      std::ranges::all_of(composition.parts, of_params)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "[algorithm] name = \"{}\" defines the clients' training, but clients of a model without a graph (model.arrays) "
      "train externally; choose an algorithm that allows it, such as \"fedavg\" or \"fedadam\"",
      scenario.algorithm.name);
}

// Clients' own running statistics are among the trained variables, with a gradient of zero; weight decay would pull
// them to zero.
Status CheckKeptStatistics(const Scenario& scenario, const ModelDef& model) {
  if (scenario.client.optimizer.weight_decay() == 0 || !model.has_graph()) return absl::OkStatus();
  for (const std::string& update : model.train_updates) {
    const Node* const node = model.graph.Find(update);
    if (node == nullptr || node->inputs().empty() || node->input(0).node->type() != "VarHandleOp") continue;
    const std::string_view name = VariableName(*node->input(0).node);
    const auto variable = std::ranges::find(model.variables, name, &ModelVariable::name);
    if (variable == model.variables.end() || variable->segment != Name(Segment::kLocal)) continue;
    return InvalidArgument(
        "clients keep the running statistics '{}' (model.personal), which client.optimizer.weight_decay would draw to "
        "zero; set it to 0",
        name);
  }
  return absl::OkStatus();
}

// Fine-tunes the version by plain training and measures the result as each client's personal model.
Status FineTune(const Scenario& scenario, const ModelDef& model, const ModelLayout& layout, Composition& composition) {
  if (!composition.personal.empty() || layout.elements(Segment::kLocal) > 0) {
    return InvalidArgument(
        "clients have personal models or layers, which they measure unchanged (personal/…); set "
        "evaluation.fine_tune_epochs to 0");
  }
  if (!model.has_graph()) {
    return InvalidArgument(
        "clients of a model without a graph (model.arrays) measure it in their own way; set "
        "evaluation.fine_tune_epochs to 0");
  }
  PassBuilder tune;
  tune.epochs = scenario.evaluation.fine_tune_epochs;
  tune.reports = "personal/train_loss";
  composition.adaptation = {std::move(tune)};
  composition.personal = "params";
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::shared_ptr<const Plan>> ComposePlan(const Scenario& scenario, const ModelDef& model) {
  RIVULET_ASSIGN_OR_RETURN(const ModelLayout layout, ModelLayoutOf(model));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, Compose(scenario, layout));
  RIVULET_RETURN_IF_ERROR(TakeRule(scenario, composition));
  RIVULET_RETURN_IF_ERROR(CheckServerSchedule(scenario.server.schedule));
  if (!model.has_graph()) RIVULET_RETURN_IF_ERROR(CheckLeavesTrainingAlone(scenario, composition));
  if (!model.has_graph() && composition.noise.local()) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with noise = \"local\": clients of a model without a graph (model.arrays) "
        "report losses without noise; take a model with a graph");
  }
  if (!model.has_graph() && scenario.server.download != "f32") {
    return InvalidArgument(
        "server.download is \"{}\", and clients of a model without a graph (model.arrays) read its files in their own "
        "way; set it to \"f32\"",
        scenario.server.download);
  }
  RIVULET_RETURN_IF_ERROR(CheckKeptStatistics(scenario, model));
  const EvaluationConfig& evaluation = scenario.evaluation;
  if (layout.elements(Segment::kLocal) > 0 && evaluation.every > 0) {
    return InvalidArgument(
        "the model has local variables, of which no version has values to be measured with; set evaluation.every to 0, "
        "and evaluation.federated_every to have clients measure it with their own");
  }
  if (evaluation.fine_tune_epochs > 0) {
    RIVULET_RETURN_IF_ERROR(FineTune(scenario, model, layout, composition));
  }
  if (evaluation.federated_every > 0) {
    RIVULET_ASSIGN_OR_RETURN(composition.evaluation, FederatedEvaluation(model, composition, evaluation.batch_size));
  }
  return Plan::Build(scenario, model, composition);
}

StatusOr<std::string> BuildPlan(const Scenario& scenario, const ModelDef& model) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, ComposePlan(scenario, model));
  return plan->bytes();
}

}  // namespace rivulet
