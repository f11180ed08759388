// DP-FedAvg (McMahan et al. 2018, arXiv:1710.06963, algorithm 1): federated averaging with client-level differential
// privacy. A client's change Δ_k = w_k − w is clipped to the norm S = privacy.clip before it is sent (flat clipping),
// and all clients have the same weight. The sum is divided by the planned number of updates K, not by a number that
// depends on reports: the paper's estimator f̃_f with w_k = 1 and qW = K. So one client moves the mean by at most S /
// K, and the server adds noise of z = noise_multiplier times that:
//
//   w ← w + server.learning_rate · ( (1/K) · Σ_k Δ_k · min(1, S / ‖Δ_k‖) + N(0, (z · S / K)²) )
//
// The noise is an exact discrete Gaussian on the integer sums (federated/privacy/sum_noise.h), of z times the largest
// norm of a rounded update. Without clip and noise, and with an update of each planned client, it is federated
// averaging with uniform weights, to the bit. The paper selects each client with a probability: selection.name =
// "poisson". With clip_quantile the clip follows a quantile of the updates' norms (Andrew et al. 2021,
// arXiv:1905.03871): it is a number of each task, and one more noised word of the sums adjusts it. The coordinator
// accounts for the rounds (coordinator/run_privacy.h). Only the models are private: the server and its history contain
// each client's report.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string_view>

#include "federated/algorithms/algorithm.h"
#include "federated/algorithms/most_updates.h"
#include "federated/numbers/number_rule.h"
#include "federated/privacy/adaptive_clip.h"
#include "federated/privacy/banded_noise.h"
#include "federated/privacy/distributed_noise.h"
#include "federated/privacy/gaussian.h"
#include "federated/privacy/sum_noise.h"

namespace rivulet {
namespace {

constexpr char kSecure[] = "secure", kSeeded[] = "seeded";
constexpr char kCentral[] = "central", kDistributed[] = "distributed", kLocal[] = "local";
// Bits of whole units that float32 holds, and the number of deviations beyond which noise is never drawn.
constexpr int kUnitBits = 23;
constexpr double kReachInDeviations = 12;
// A discrete Laplace exceeds so many scales once in 10^17; the value is then clamped to the range. A clip of fewer
// units would be too coarse. A multiplier below the least would spend more than epsilon 200 a round.
constexpr double kReachInScales = 40, kLeastLocalMultiplier = 0.01;
constexpr int64_t kLeastClipUnits = 16;

Setting NoiseMultiplier() {
  Setting z = Float("noise_multiplier", 1,
                    "Standard deviation of the noise in the mean, as a multiple of one client's largest influence on "
                    "it, `privacy.clip` / `server.clients_per_round`. 0: none.")
                  .Between(0, 1e6);
  z.example = "0.8";
  return z;
}

Setting NoiseSource() {
  Setting source =
      Text("noise_source", kSecure,
           "`secure` noise follows from 256 secret bits that the run keeps beside its models, in `noise.key`. With "
           "this file the run can be replayed, and its noise removed. `seeded` noise follows from run.seed and the "
           "version, so knowledge of the seed removes its protection: for simulations.")
          .OneOf({kSecure, kSeeded});
  source.example = "\"seeded\"";
  return source;
}

Setting NoiseBy() {
  Setting by =
      Text("noise", kCentral,
           "`central`: the server adds the noise to the sum, and is trusted with updates. `distributed`: each "
           "client adds its share to its own update before it is summed (Kairouz et al. 2021, "
           "arXiv:2102.06387), so the server never has a sum without noise. It needs `privacy.secure`. `local`: "
           "each client adds discrete Laplace noise that protects its update alone, from everybody. "
           "`privacy.clip` is then the largest sum of an update's magnitudes, and one round spends epsilon = 2 / "
           "`noise_multiplier`.")
          .OneOf({kCentral, kDistributed, kLocal});
  by.example = "\"distributed\"";
  return by;
}

Setting Bands() {
  Setting bands =
      Integer("bands", 1,
              "DP-FTRL (Choquette-Choo et al. 2023, arXiv:2306.08153): the noise of a version is correlated "
              "with that of the bands - 1 before it, so that models have less of it. It needs "
              "selection.name = \"spaced\" with a separation of at least as much. 1: fresh noise.")
          .Between(1, privacy::kMostBands);
  bands.example = "8";
  return bands;
}

Setting ClipQuantile() {
  Setting quantile =
      Float("clip_quantile", 0,
            "Adaptive clipping (Andrew et al. 2021, arXiv:1905.03871): the clip starts at `privacy.clip` "
            "and follows this quantile of the updates' norms. 0: the clip stays.")
          .Between(0, 0.999);
  quantile.example = "0.5";
  return quantile;
}

Setting ClipLearningRate() {
  Setting rate = Float("clip_learning_rate", 0.2,
                       "How fast the logarithm of the clip follows; read where `clip_quantile` is above 0.")
                     .Between(0, 10);
  rate.example = "0.1";
  return rate;
}

Setting ClipCountStddev() {
  Setting deviation = Float("clip_count_stddev", 0,
                            "Standard deviation of the noise in the number of unclipped updates, sigma_b of the paper. "
                            "The noise in the updates grows so that both together spend `noise_multiplier`. 0: "
                            "`server.clients_per_round` / 20.")
                          .Between(0, 1e6);
  deviation.example = "5";
  return deviation;
}

double NormOf(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// Refuses settings that would make the noise smaller than stated, or the model useless.
Status CheckNoise(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  if (scenario.privacy.clip == 0) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" adds noise as a multiple of privacy.clip, which is 0; set it to the largest "
        "norm that an update may have, or noise_multiplier = 0 for none");
  }
  if (scenario.server.base == "latest") {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with server.base = \"latest\": a client may be in a version twice, and the "
        "noise would be too small by half; leave it at \"committed\"");
  }
  if (scenario.update.codec != "f32") {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with update.codec = \"{}\": a decoded update may exceed privacy.clip, and "
        "the noise would be too small; leave it at \"f32\"",
        scenario.update.codec);
  }
  if (scenario.server.sum_bits != 64 && context.settings.text("noise") != kDistributed) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with server.sum_bits = {}: such sums have no room for exact noise; set it to "
        "64",
        scenario.server.sum_bits);
  }
  if (context.layout.elements(Segment::kShared) > 0) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" would add noise to the running statistics of the model, and a variance could "
        "become negative; take a model without batch normalisation, or noise_multiplier = 0");
  }
  return absl::OkStatus();
}

// Refuses, by key, settings that cannot be combined with adaptive clipping.
Status CheckAdaptive(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  const auto with = [](const std::string& key, const std::string& reason) {
    return InvalidArgument("[algorithm] name = \"dp_fedavg\" with clip_quantile and {}: {}", key, reason);
  };
  if (scenario.privacy.clip == 0) {
    return with("privacy.clip = 0", "the clip starts at privacy.clip; set it above 0, such as 0.1");
  }
  if (context.settings.integer("bands") > 1) {
    return with("bands", "correlated noise needs one clip in all versions; set bands = 1, or clip_quantile = 0");
  }
  if (scenario.privacy.noise > 0) {
    return with("privacy.noise", "clients' noise is a multiple of a fixed clip; set privacy.noise = 0");
  }
  if (scenario.server.base == "latest") {
    return with("server.base = \"latest\"", "updates of one sum need one clip; leave it at \"committed\"");
  }
  if (scenario.update.codec != "f32") {
    return with(fmt::format("update.codec = \"{}\"", scenario.update.codec),
                "a decoded update may exceed the clip; leave it at \"f32\"");
  }
  if (context.layout.elements(Segment::kShared) > 0) {
    return with("running statistics in the model",
                "they would be clipped and scaled with the update; take a model without batch normalisation");
  }
  return absl::OkStatus();
}

// Deviation of the noise in the sum of ±1: twice that of the paper's sum of b - 1/2.
double CountDeviation(const AlgorithmContext& context) {
  const double stddev = context.settings.number("clip_count_stddev");
  return 2 * (stddev > 0 ? stddev : static_cast<double>(context.scenario.server.clients_per_round) / 20);
}

Status ClipAdaptively(const AlgorithmContext& context, Composition& composition) {
  RIVULET_RETURN_IF_ERROR(CheckAdaptive(context));
  const Scenario& scenario = context.scenario;
  composition.sent_in_clips = true;
  composition.mechanisms = {{"adaptive_clip"}};
  composition.numbers = {"clip"};
  composition.number_rule = {"adaptive_clip",
                             {{"first", scenario.privacy.clip},
                              {"quantile", context.settings.number("clip_quantile")},
                              {"learning_rate", context.settings.number("clip_learning_rate")},
                              {"planned", static_cast<double>(scenario.server.clients_per_round)}}};
  composition.aggregation.scalars = {{kUnclipped, "one"}};
  const double z = context.settings.number("noise_multiplier"), deviation = CountDeviation(context);
  if (z == 0 || (deviation > z && deviation >= 0.25)) return absl::OkStatus();
  return InvalidArgument(
      "[algorithm] name = \"dp_fedavg\" with clip_quantile: noise of the deviation {:g} in the number of unclipped "
      "updates spends more than noise_multiplier = {:g} allows; set clip_count_stddev above {:g}, or raise "
      "server.clients_per_round",
      deviation / 2, z, std::max(z, 0.25) / 2);
}

// Honest clients in the smallest sum that can be revealed: privacy rests on their joint noise.
int64_t LeastHonest(const SecureConfig& secure) {
  return secure.protocol == "arithmetic" ? secure.min_survivors : secure.least_sum;
}

// Configures noise by each client, sized for the smallest sum. The part's range includes it, so no word wraps around.
Status LetClientsAddNoise(const AlgorithmContext& context, Composition& composition) {
  const Scenario& scenario = context.scenario;
  const auto refuse = [](std::string_view reason) {
    return InvalidArgument("[algorithm] name = \"dp_fedavg\" with noise = \"distributed\": {}", reason);
  };
  if (!scenario.secure.on()) {
    return refuse("the coordinator would see single updates, whose own noise is small; set privacy.secure");
  }
  if (context.settings.integer("bands") > 1) {
    return refuse("clients cannot correlate the noise of versions; set bands = 1");
  }
  if (scenario.privacy.noise > 0) return refuse("privacy.noise adds other noise of each client; set it to 0");
  CentralNoise& noise = composition.noise;
  PartSpec& delta = composition.aggregation.parts[0];
  const int64_t honest = LeastHonest(scenario.secure), most = MostUpdatesOf(scenario);
  const double of_sums = noise.count_deviation > 0
                             ? privacy::UpdateMultiplierFor(noise.multiplier, noise.count_deviation)
                             : noise.multiplier;
  const double each = of_sums * noise.clip / std::sqrt(static_cast<double>(honest));
  const double reach = noise.clip * (1 + 0x1p-20) + kReachInDeviations * each;
  const int reach_bits = static_cast<int>(std::ceil(std::log2(reach)));
  if (reach_bits < -30 || reach_bits > 30) {
    return refuse(
        fmt::format("values reach {:g} with their noise, and words take 2^-30 to 2^30; change privacy.clip", reach));
  }
  delta.value_bits = reach_bits;
  const int count_bits = std::bit_width(static_cast<uint64_t>(most - 1));
  const int of_words = static_cast<int>(scenario.server.sum_bits) - 2 - reach_bits - count_bits;
  noise.fraction_bits = std::min(kUnitBits - reach_bits, of_words);
  const int64_t elements = context.layout.parameters();
  const double sensitivity = privacy::NormInUnits({noise.clip, elements, noise.fraction_bits});
  double multiplier = noise.multiplier;
  if (noise.count_deviation > 0) {
    const auto count = privacy::CountUnitsFor(noise.multiplier, noise.count_deviation, sensitivity);
    if (!count.ok()) return refuse(Message(count.status()));
    noise.count_units = count->units;
    multiplier = privacy::UpdateMultiplierFor(noise.multiplier, count->deviation);
  }
  const auto sized = privacy::SizeDistributedNoise({.multiplier = multiplier,
                                                    .sensitivity = sensitivity,
                                                    .dimension = elements + (noise.count_units > 0 ? 1 : 0),
                                                    .least_honest = honest,
                                                    .most_clients = most});
  if (!sized.ok()) return refuse(Message(sized.status()));
  noise.contributors = honest;
  noise.each = sized->each.value();
  return absl::OkStatus();
}

// The multiplier of Gaussian noise that spends, for one exchanged client, at least as much as pure epsilon: the
// Gaussian's trade-off curve passes through the corner of epsilon's curve, and is convex (Liu et al. 2022,
// arXiv:2210.09269). Sites' privacy ledgers add up such multipliers.
double GaussianMultiplierOf(double epsilon) {
  const double corner = 1 / (1 + std::exp(epsilon));  // P[N(0, 1) < -mu / 2], mu of the whole difference
  double low = 0, high = 100;
  for (int step = 0; step < 100; ++step) {
    const double mu = (low + high) / 2;
    (privacy::NormalCdf(-mu / 2) > corner ? low : high) = mu;
  }
  return 2 / high;
}

// Configures noise by each client that protects its update from every reader. The client must send nothing else that
// depends on its data.
Status LetClientsProtectThemselves(const AlgorithmContext& context, Composition& composition) {
  const Scenario& scenario = context.scenario;
  const auto refuse = [](std::string_view reason) {
    return InvalidArgument("[algorithm] name = \"dp_fedavg\" with noise = \"local\": {}", reason);
  };
  if (context.settings.number("clip_quantile") > 0) {
    return refuse("whether an update was clipped would leave its client without noise; set clip_quantile = 0");
  }
  if (context.settings.integer("bands") > 1) {
    return refuse("clients cannot correlate the noise of versions; set bands = 1");
  }
  if (scenario.secure.on()) {
    return refuse(
        "each update has all of its noise, and needs no secure sum; set privacy.secure = \"none\", or noise = "
        "\"distributed\", whose sums have less noise");
  }
  if (scenario.privacy.noise > 0) return refuse("privacy.noise adds other noise of each client; set it to 0");
  if (scenario.evaluation.federated_every > 0) {
    return refuse("clients would measure versions without noise; set evaluation.federated_every to 0");
  }
  CentralNoise& noise = composition.noise;
  if (noise.multiplier < kLeastLocalMultiplier) {
    return refuse(
        fmt::format("one round would spend epsilon {:g}, which is no protection; set noise_multiplier to {:g} "
                    "or more",
                    2 / noise.multiplier, kLeastLocalMultiplier));
  }
  const int reach_bits = static_cast<int>(std::ceil(std::log2(noise.clip * (1 + kReachInScales * noise.multiplier))));
  noise.fraction_bits = kUnitBits - reach_bits;
  noise.clip_units = static_cast<int64_t>(std::floor(std::ldexp(noise.clip, noise.fraction_bits)));
  if (noise.clip_units < kLeastClipUnits) {
    return refuse(fmt::format("beside its noise an update would have {} units of 24 bits; lower noise_multiplier",
                              noise.clip_units));
  }
  if (reach_bits < -30 || reach_bits > 30) {
    return refuse(fmt::format("values reach 2^{} with their noise, and sums take 2^-30 to 2^30; change privacy.clip",
                              reach_bits));
  }
  noise.laplace_scale = static_cast<int64_t>(std::ceil(noise.multiplier * static_cast<double>(noise.clip_units)));
  const double epsilon = 2 * static_cast<double>(noise.clip_units) / static_cast<double>(noise.laplace_scale);
  noise.claimed = GaussianMultiplierOf(epsilon);
  noise.sampling_rate = 1;  // readers of an update know its client
  composition.aggregation.parts[0].value_bits = reach_bits;
  for (PassBuilder& pass : composition.passes) pass.reports.clear();
  return absl::OkStatus();
}

StatusOr<Composition> DpFedAvg(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  const Scenario& scenario = context.scenario;
  const auto planned = static_cast<double>(scenario.server.clients_per_round);
  composition.aggregation.parts = {{.value_bits = static_cast<int>(scenario.server.value_bits),
                                    .weigh = "one",
                                    .denominator = {.kind = Denominator::Kind::kConstant, .constant = planned}}};
  const double z = context.settings.number("noise_multiplier");
  const bool adaptive = context.settings.number("clip_quantile") > 0;
  if (adaptive) RIVULET_RETURN_IF_ERROR(ClipAdaptively(context, composition));
  if (z == 0) return composition;
  RIVULET_RETURN_IF_ERROR(CheckNoise(context));
  // The finest sums that exact noise allows; a coarser setting is kept.
  PartSpec& delta = composition.aggregation.parts[0];
  const int64_t bands = context.settings.integer("bands"), separation = SeparationOf(scenario);
  if (separation < bands) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with bands = {} needs selection.name = \"spaced\" with selection.separation "
        "= {} or more, so that noise of one client's versions is independent",
        bands, bands);
  }
  const double clip = adaptive ? 1 : scenario.privacy.clip;  // of the values that are sent
  const double of_sums = adaptive ? privacy::UpdateMultiplierFor(z, CountDeviation(context)) : z;
  const int finest = privacy::MostFractionBits(of_sums, clip, bands);
  const int count_bits = std::bit_width(static_cast<uint64_t>(MostUpdatesOf(scenario) - 1));
  delta.value_bits = std::max(delta.value_bits, delta.sum_bits - 2 - count_bits - finest);
  composition.noise = {.multiplier = z,
                       .clip = clip,
                       .seeded = context.settings.text("noise_source") == kSeeded,
                       .sampling_rate = SamplingRateOf(scenario),
                       .bands = bands,
                       .separation = separation,
                       .count_deviation = adaptive ? CountDeviation(context) : 0,
                       .claimed = z / NormOf(privacy::SquareRootBands(bands))};
  if (context.settings.text("noise") == kDistributed) {
    RIVULET_RETURN_IF_ERROR(LetClientsAddNoise(context, composition));
  }
  if (context.settings.text("noise") == kLocal) {
    RIVULET_RETURN_IF_ERROR(LetClientsProtectThemselves(context, composition));
  }
  return composition;
}

RIVULET_ALGORITHM(
    dp_fedavg_registration, "dp_fedavg", "McMahan et al. 2018, arXiv:1710.06963, algorithm 1",
    "Federated averaging with differential privacy: each client clips its update to the norm `privacy.clip`, and their "
    "sum gets exact discrete Gaussian noise, from a trusted server or from the clients. Or each update gets discrete "
    "Laplace noise. All updates count the same, and the sum is divided by `server.clients_per_round` for any number of "
    "updates. Each round has its epsilon, and `privacy.epsilon` ends the run.",
    {NoiseMultiplier(), NoiseSource(), NoiseBy(), Bands(), ClipQuantile(), ClipLearningRate(), ClipCountStddev()},
    DpFedAvg,
    "K = server.clients_per_round,  S = privacy.clip,  z = noise_multiplier\n"
    "w ← w + server.learning_rate · ( (1/K) · Σ_k (w_k − w) · min(1, S / ‖w_k − w‖) + N(0, (z · S / K)²) )");

}  // namespace
}  // namespace rivulet
