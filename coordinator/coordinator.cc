#include "coordinator/coordinator.h"

#include <algorithm>

#include "coordinator/run_parts.h"
#include "coordinator/secure_round.h"
#include "federated/algorithms/algorithm.h"
#include "federated/codecs/codec.h"
#include "federated/plan/layout_metadata.h"
#include "federated/weights/base.h"

namespace rivulet {
namespace {

// The largest norm of an update that was clipped as the plan asks; 0: any. A plan can ask a client to clip, but
// cannot force it, so each update's norm is compared with the clip. Noise and codecs that round may lengthen an
// update.
StatusOr<double> MostNorm(const Scenario& scenario, const Composition& composition, const AggregationSpec& spec) {
  const PrivacyConfig& privacy = scenario.privacy;
  if (privacy.unit == "example" || privacy.noise > 0 || composition.noise.by_clients() || composition.noise.local()) {
    return 0;
  }
  double most_gain = 1;
  for (const PartSpec& part : spec.parts) {
    RIVULET_ASSIGN_OR_RETURN(const auto codec, Codec::Create(part.codec, part.elements, part.codec_settings));
    if (!codec->transparent() && !codec->shares_places()) return 0;
    most_gain = std::max(most_gain, codec->most_gain());
  }
  return most_gain * (composition.sent_in_clips ? 1 : privacy.clip);
}

}  // namespace

StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(CoordinatorOptions options) {
  const std::shared_ptr<const Plan> plan = options.plan;
  if (plan == nullptr) return InvalidArgument("a run needs a plan: build it from the scenario and its model");
  if (const std::string& attack = options.scenario.attack.name; !attack.empty() && !options.plays_attack) {
    return InvalidArgument(
        "attack.name is \"{}\", and only simulations have attackers ('rivulet simulate'); leave [attack] out of the "
        "scenario for real clients",
        attack);
  }
  if (options.scenario.devices.any() && options.fleet == nullptr) {
    return InvalidArgument(
        "[devices] sets the speed of simulated devices ('rivulet simulate'); leave it out of the scenario for real "
        "clients");
  }
  if (plan->aggregation().secure.protocol == "arithmetic" && options.enforce_deadline) {
    return InvalidArgument(
        "privacy.secure is \"arithmetic\", which hides nothing and is for simulations alone ('rivulet simulate'); set "
        "it "
        "to \"none\" where real clients train");
  }
  if (plan->model().base) {
    if (options.base == nullptr) {
      return FailedPrecondition("the plan needs the base {}; name its file in model.base", plan->model().base->Hex());
    }
    RIVULET_RETURN_IF_ERROR(CheckIsBase(*options.base, *plan->model().base));
  }
  RunParts parts;
  parts.plan = std::shared_ptr<const std::string>(plan, &plan->bytes());
  parts.plan_digest = plan->digest();
  parts.dataset = plan->dataset();
  parts.layout = plan->layout();
  parts.layout_metadata = LayoutMetadata(*plan);
  parts.aggregation = plan->aggregation();
  parts.broadcasts = plan->flat_names().broadcast;
  parts.measures_broadcasts = plan->reads_broadcasts(TaskKind::kEvaluate);
  parts.declared = plan->flat_names().declared;
  parts.download = plan->download();
  parts.numbers = plan->flat_names().numbers;
  parts.keeps_state = plan->keeps_state();
  parts.measures_state = plan->measures_state();
  parts.most_state_bytes = 128 + static_cast<int64_t>(parts.layout->segment_bytes(Segment::kLocal));
  for (const StateVector& kept : plan->flat_names().state) {
    parts.most_state_bytes += 64 + std::ssize(kept.name) + static_cast<int64_t>(parts.layout->arena_bytes());
  }
  for (const PartSpec& part : parts.aggregation.parts) {
    if (!part.error_feedback) continue;
    parts.most_state_bytes += 64 + std::ssize(part.name) + part.elements * static_cast<int64_t>(sizeof(float));
  }
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SteppedProtocol(parts.aggregation));
  // If other processes train for a simulation, its clients' halves do not run. The sums are the same without keys.
  const bool with_keys = options.enforce_deadline || options.identity != nullptr;
  if (protocol != nullptr && with_keys) {
    parts.steps = protocol->steps;
    parts.sum_step = protocol->sum_step;
    const secure::SecureSettings settings = secure::SettingsOf(parts.aggregation.secure, parts.aggregation.sum_bits());
    RIVULET_RETURN_IF_ERROR(
        Annotate(secure::ChooseGraph(secure::NeedsOf(settings, options.scenario.server.clients_per_round)).status(),
                 "the cohorts of privacy.secure"));
    // Faults of the certificates are found before a client trains.
    const auto identity = options.identity == nullptr ? nullptr : options.identity();
    RIVULET_RETURN_IF_ERROR(SecureRound::Create(parts.aggregation, {}, identity, 0).status());
  }
  parts.evaluation = plan->aggregation(TaskKind::kEvaluate);
  RIVULET_ASSIGN_OR_RETURN(const Composition composition, Compose(options.scenario, *plan->layout()));
  parts.mean_mechanisms = composition.mean_mechanisms;
  parts.noise = composition.noise;
  parts.server_optimizer = composition.server_optimizer;
  parts.number_rule = composition.number_rule;
  parts.policy = composition.policy;
  RIVULET_ASSIGN_OR_RETURN(parts.aggregation.most_norm, MostNorm(options.scenario, composition, parts.aggregation));
  parts.initial_model = [plan, seed = options.scenario.run.seed,
                         given = options.initial_model]() -> StatusOr<std::shared_ptr<const Model>> {
    if (given != nullptr) return given;
    return InitialModel(*plan, seed);
  };
  parts.draw_model = [plan, seed = options.scenario.run.seed](std::string_view flat) {
    return DrawModelFor(*plan, seed, flat);
  };
  return CreateCoordinator(std::move(options), std::move(parts));
}

}  // namespace rivulet
