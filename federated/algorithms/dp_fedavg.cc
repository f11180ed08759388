// DP-FedAvg (McMahan et al. 2018, arXiv:1710.06963, algorithm 1): federated averaging whose models say little of any
// one client. A client's change Δ_k = w_k − w is clipped to the norm S = privacy.clip before it leaves it (flat
// clipping), and all count the same. Their sum is divided by no number that depends on who reported, but by the K
// updates that a version plans: the paper's estimator f̃_f with w_k = 1 and qW = K. So one client moves the mean by S /
// K at most, and the server adds noise of z = noise_multiplier times that:
//
//   w ← w + server.learning_rate · ( (1/K) · Σ_k Δ_k · min(1, S / ‖Δ_k‖) + N(0, (z · S / K)²) )
//
// The noise is an exact discrete Gaussian on the integer sums (federated/privacy/sum_noise.h), of z times the norm that
// one rounded update has at most. Without clip and noise, and with an update of each planned client, it is federated
// averaging with uniform weights, to the bit. The paper draws each client with a probability: selection.name =
// "poisson". With clip_quantile the clip follows a quantile of the updates' norms (Andrew et al. 2021,
// arXiv:1905.03871): a number that goes with each task, and moves by one more noised word of the sums. The coordinator
// accounts for the rounds (coordinator/run_privacy.h). The models alone are private: the
// server and its history see what each client reports.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "federated/algorithms/algorithm.h"
#include "federated/algorithms/most_updates.h"
#include "federated/numbers/number_rule.h"
#include "federated/privacy/adaptive_clip.h"
#include "federated/privacy/banded_noise.h"
#include "federated/privacy/sum_noise.h"

namespace rivulet {
namespace {

constexpr char kSecure[] = "secure", kSeeded[] = "seeded";

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

// What would make the noise a smaller multiple than it says, or the model useless.
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
  if (scenario.server.sum_bits != 64) {
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

// What adaptive clipping cannot be combined with, each by its key.
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
  if (scenario.secure.on()) {
    return with(fmt::format("privacy.secure = \"{}\"", scenario.secure.protocol),
                "clipping adaptively is not available with secure sums; set clip_quantile = 0");
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

// Deviation of the noise in the sum of +-1: twice that of the paper's sum of b - 1/2.
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
  // Sums as fine as exact noise takes; a coarser setting stays.
  PartSpec& delta = composition.aggregation.parts[0];
  const int64_t bands = context.settings.integer("bands"), separation = SeparationOf(scenario);
  if (separation < bands) {
    return InvalidArgument(
        "[algorithm] name = \"dp_fedavg\" with bands = {} needs selection.name = \"spaced\" with selection.separation "
        "= {} or more, so that noise of one client's versions is independent",
        bands, bands);
  }
  const double clip = adaptive ? 1 : scenario.privacy.clip;  // of what is sent
  const double of_sums = adaptive ? privacy::UpdateMultiplierFor(z, CountDeviation(context)) : z;
  const int finest = privacy::MostFractionBits(of_sums, clip, bands);
  const int count_bits = std::bit_width(static_cast<uint64_t>(MostUpdatesOf(scenario) - 1));
  delta.value_bits = std::max(delta.value_bits, delta.sum_bits - 2 - count_bits - finest);
  composition.noise = {
      z,     clip,       context.settings.text("noise_source") == kSeeded, SamplingRateOf(scenario),
      bands, separation, adaptive ? CountDeviation(context) : 0,           z / NormOf(privacy::SquareRootBands(bands))};
  return composition;
}

RIVULET_ALGORITHM(
    dp_fedavg_registration, "dp_fedavg", "McMahan et al. 2018, arXiv:1710.06963, algorithm 1",
    "Federated averaging with differential privacy for clients that trust the server: each clips its update to the "
    "norm `privacy.clip`, and the server adds an exact discrete Gaussian to their sum. All updates count the same, and "
    "the sum is divided by `server.clients_per_round` for any number of updates. Each round has its epsilon, and "
    "`privacy.epsilon` ends the run.",
    {NoiseMultiplier(), NoiseSource(), Bands(), ClipQuantile(), ClipLearningRate(), ClipCountStddev()}, DpFedAvg,
    "K = server.clients_per_round,  S = privacy.clip,  z = noise_multiplier\n"
    "w ← w + server.learning_rate · ( (1/K) · Σ_k (w_k − w) · min(1, S / ‖w_k − w‖) + N(0, (z · S / K)²) )");

}  // namespace
}  // namespace rivulet
