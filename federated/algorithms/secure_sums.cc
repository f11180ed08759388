#include "federated/algorithms/secure_sums.h"

#include <algorithm>
#include <cmath>

#include "federated/codecs/codec.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

// Relative excess of a clipped update's values over the clip, from float32 rounding.
constexpr double kRounding = 0x1p-20;
// Noise beyond so many deviations is never drawn: its probability is 10^-33.
constexpr double kMostDeviations = 12;

// The smallest exponent of two that no value of an update exceeds.
int ValueBits(double clip, double noise) {
  const double largest = clip * (1 + kRounding) * (1 + kMostDeviations * noise);
  return static_cast<int>(std::clamp(std::ceil(std::log2(largest)), -30.0, 31.0));
}

// Whether the selector ignores clients' updates and reports.
bool DrawsBlindly(const std::string& selector) {
  return selector == "uniform" || selector == "round_robin" || selector == "poisson" || selector == "spaced";
}

// A sum of fewer clients would contain less of their noise than the privacy accounting assumes.
int64_t MinSurvivors(const Scenario& scenario, const Composition& composition) {
  return std::max(scenario.secure.min_survivors, composition.noise.contributors);
}

// Checks the separate cohort that measures a version; its results are summed securely like updates.
Status CheckMeasurements(const Scenario& scenario, int64_t min_survivors) {
  const EvaluationConfig& evaluation = scenario.evaluation;
  if (evaluation.federated_every == 0) return absl::OkStatus();
  const int64_t clients =
      evaluation.federated_clients > 0 ? evaluation.federated_clients : scenario.server.clients_per_round;
  const auto check = [&](const char* key, int64_t least) -> Status {
    if (clients >= least) return absl::OkStatus();
    return InvalidArgument(
        "{} is {}, and {} clients measure a version (evaluation.federated_clients); raise that, or lower {}", key,
        least, clients, key);
  };
  RIVULET_RETURN_IF_ERROR(check("privacy.min_survivors", min_survivors));
  if (scenario.secure.protocol == "arithmetic") return absl::OkStatus();
  return check("privacy.min_cohort", scenario.secure.min_cohort);
}

Status CheckGoesWithSecureSums(const Scenario& scenario, const Composition& composition) {
  const std::string secure = fmt::format("privacy.secure is \"{}\"", scenario.secure.protocol);
  if (scenario.privacy.clip == 0) {
    return InvalidArgument("{}, and its words need a bound of updates; set privacy.clip", secure);
  }
  RIVULET_ASSIGN_OR_RETURN(const SettingTable* const codec, FindSettingTable("codec", scenario.update.codec));
  if (scenario.update.codec != "f32" && !codec->HasTrait(kSharesPlaces)) {
    return InvalidArgument(
        "{}, and updates encoded as \"{}\" cannot be added; set update.codec to \"f32\", or to \"random_k_shared\" for "
        "fewer words",
        secure, scenario.update.codec);
  }
  if (composition.policy.base == TaskPolicy::Base::kLatest) {
    return InvalidArgument(
        "{} sums the updates of one version, and server.base is \"latest\"; set it to \"committed\", or choose an "
        "algorithm of rounds",
        secure);
  }
  if (composition.aggregation.rule != "mean") {
    return InvalidArgument(
        "{} hides each update, and algorithm.name = \"{}\" compares them (rule \"{}\"); choose an algorithm that takes "
        "a mean",
        secure, scenario.algorithm.name, composition.aggregation.rule);
  }
  // Adaptive clipping adjusts its number from a sum alone.
  if (!composition.numbers.empty() && !composition.sent_in_clips) {
    return InvalidArgument("{} hides each client's loss, by which algorithm.name = \"{}\" steers; choose another",
                           secure, scenario.algorithm.name);
  }
  if (!DrawsBlindly(scenario.selection.name)) {
    return InvalidArgument(
        "{} hides clients' losses and examples, and goes with the selections \"uniform\" and \"round_robin\"; set "
        "selection.name = \"{}\" to one of them",
        secure, scenario.selection.name);
  }
  if (scenario.selection.min_examples > 0) {
    return InvalidArgument("{} hides how many examples a client has; set selection.min_examples to 0", secure);
  }
  if (scenario.server.checkpoint_reports) {
    return InvalidArgument(
        "{}, and an update in words is of use in its own attempt alone; set server.checkpoint_reports to false",
        secure);
  }
  return CheckMeasurements(scenario, MinSurvivors(scenario, composition));
}

}  // namespace

Status SetSecureSums(const Scenario& scenario, Composition& composition) {
  if (!scenario.secure.on()) return absl::OkStatus();
  RIVULET_RETURN_IF_ERROR(CheckGoesWithSecureSums(scenario, composition));
  const SecureConfig& config = scenario.secure;
  if (config.protocol != "arithmetic" && config.min_cohort > scenario.server.clients_per_round) {
    return InvalidArgument("privacy.min_cohort is {}, and a round has {} clients (server.clients_per_round); lower it",
                           config.min_cohort, scenario.server.clients_per_round);
  }
  SecureSum& secure = composition.aggregation.secure;
  secure.protocol = scenario.secure.protocol;
  secure.min_survivors = MinSurvivors(scenario, composition);
  secure.min_cohort = std::max(scenario.secure.min_cohort, secure.min_survivors);
  secure.max_colluding = scenario.secure.max_colluding;
  secure.drop_out = scenario.secure.drop_out;
  secure.least_sum = scenario.secure.least_sum;
  // With exact noise, the sums keep the algorithm's resolution.
  const int least = composition.noise.any() ? composition.aggregation.parts.at(0).value_bits : -30;
  const double clip = composition.sent_in_clips ? 1 : scenario.privacy.clip;
  for (PartSpec& part : composition.aggregation.parts) {
    RIVULET_ASSIGN_OR_RETURN(const auto codec, Codec::Create(part.codec, part.elements, part.codec_settings));
    part.value_bits = std::max(least, ValueBits(clip * codec->most_gain(), scenario.privacy.noise));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
