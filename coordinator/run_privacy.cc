#include "coordinator/run_privacy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "federated/algorithms/most_updates.h"
#include "federated/privacy/banded_noise.h"

namespace rivulet {
namespace {

using privacy::NoisedRounds;
using privacy::NoiseKey;
using privacy::Relation;
using privacy::SamplingKind;

// Selections that do not depend on a client's data or report.
constexpr std::array<std::string_view, 4> kBlindSelectors = {"uniform", "poisson", "round_robin", "spaced"};

// An attempt of the run, apart from its noise.
struct Sampling {
  Relation relation = Relation::kReplaceOne;
  SamplingKind kind = SamplingKind::kNone;
  double rate = 1;
};

StatusOr<Sampling> SamplingOf(const SelectionConfig& selection, double fixed_share) {
  if (std::ranges::find(kBlindSelectors, selection.name) == kBlindSelectors.end()) {
    return InvalidArgument(
        "selection.name = \"{}\" draws clients by their data, which noise on the sums does not hide; take "
        "\"poisson\", \"uniform\", \"round_robin\" or \"spaced\"",
        selection.name);
  }
  if (selection.name != kPoissonSelector) {
    return fixed_share < 1 ? Sampling{Relation::kReplaceOne, SamplingKind::kFixed, fixed_share} : Sampling{};
  }
  const auto rate = selection.settings.find("rate");
  if (rate == selection.settings.end()) return InvalidArgument("selection.name = \"poisson\" needs selection.rate");
  return Sampling{Relation::kAddRemove, SamplingKind::kPoisson, std::get<double>(rate->second)};
}

// Whether there is noise at all.
StatusOr<bool> HasNoise(const Scenario& scenario, const RunParts& parts) {
  if (parts.noise.any()) return true;
  // Single examples are accounted for by their clients.
  if (scenario.privacy.epsilon == 0 || scenario.privacy.unit == "example") return false;
  return InvalidArgument(
      "privacy.epsilon = {} is a budget for noise on the sums, and [algorithm] name = \"{}\" adds none; take "
      "\"dp_fedavg\" with noise_multiplier above 0",
      scenario.privacy.epsilon, scenario.algorithm.name);
}

}  // namespace

StatusOr<std::unique_ptr<RunPrivacy>> RunPrivacy::With(std::shared_ptr<const NoiseKey> key, const Scenario& scenario,
                                                       const RunParts& parts, double fixed_share) {
  RIVULET_ASSIGN_OR_RETURN(Sampling sampling, SamplingOf(scenario.selection, fixed_share));
  if (parts.noise.local()) sampling = {};  // a reader of an update knows its client
  const AggregationSpec& spec = parts.aggregation;
  const int64_t elements = spec.parts.at(0).elements;
  NoisedRounds attempt = {
      .noise = privacy::NoiseLaw::kDiscreteGaussian, .sampling = sampling.kind, .rate = sampling.rate};
  std::optional<privacy::SumNoise> noise;
  if (parts.noise.by_clients()) {
    const auto contributors = static_cast<double>(parts.noise.contributors);
    const auto count = static_cast<double>(parts.noise.count_units);
    const double norm = privacy::NormInUnits({parts.noise.clip, elements, parts.noise.fraction_bits});
    attempt.sensitivity = count > 0 ? std::ceil(std::hypot(norm, count)) : norm;
    attempt.multiplier = parts.noise.each * std::sqrt(contributors) / attempt.sensitivity;
    attempt.dimension = elements + (count > 0 ? 1 : 0);
    attempt.contributors = parts.noise.contributors;
  } else if (parts.noise.local()) {
    attempt.noise = privacy::NoiseLaw::kDiscreteLaplace;
    attempt.sensitivity = static_cast<double>(parts.noise.clip_units);
    attempt.multiplier = static_cast<double>(parts.noise.laplace_scale) / attempt.sensitivity;
    attempt.dimension = elements;
  } else {
    const privacy::SumBound bound = {parts.noise.clip, elements,
                                     spec.fraction_bits(spec.parts[0]) + spec.weight_fraction_bits};
    RIVULET_ASSIGN_OR_RETURN(noise, privacy::SumNoise::Create(key, parts.noise.multiplier, bound, parts.noise.bands,
                                                              parts.noise.count_deviation));
    attempt.sensitivity = noise->sensitivity();
    attempt.multiplier = noise->multiplier();
    attempt.dimension = noise->dimension();
  }
  return std::unique_ptr<RunPrivacy>(new RunPrivacy(std::move(noise), std::move(key), attempt,
                                                    privacy::SpendBook(sampling.relation, scenario.privacy.delta),
                                                    scenario.privacy.epsilon, parts.noise));
}

StatusOr<std::unique_ptr<RunPrivacy>> RunPrivacy::Create(const Scenario& scenario, const RunParts& parts,
                                                         double fixed_share) {
  RIVULET_ASSIGN_OR_RETURN(const bool noised, HasNoise(scenario, parts));
  if (!noised) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(NoiseKey key,
                           parts.noise.seeded ? privacy::SeededKey(scenario.run.seed) : NoiseKey::Generate());
  RIVULET_ASSIGN_OR_RETURN(auto made,
                           With(std::make_shared<const NoiseKey>(std::move(key)), scenario, parts, fixed_share));
  RIVULET_ASSIGN_OR_RETURN(const std::string exhausted, made->Exhausted());
  if (!exhausted.empty()) {
    return InvalidArgument("not one round fits into the budget: {}; raise the noise or privacy.epsilon", exhausted);
  }
  return made;
}

Status RunPrivacy::WriteKey(FileSystem& files, const std::string& folder) const {
  return seeded_ ? absl::OkStatus() : key_->Write(files, JoinPath(folder, kNoiseKeyFile));
}

StatusOr<std::unique_ptr<RunPrivacy>> RunPrivacy::Resume(const Scenario& scenario, const RunParts& parts,
                                                         double fixed_share, FileSystem& files,
                                                         const std::string& folder, const std::vector<RoundRow>& rows) {
  RIVULET_ASSIGN_OR_RETURN(const bool noised, HasNoise(scenario, parts));
  if (!noised) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(NoiseKey key, parts.noise.seeded ? privacy::SeededKey(scenario.run.seed)
                                                            : NoiseKey::Read(files, JoinPath(folder, kNoiseKeyFile)));
  RIVULET_ASSIGN_OR_RETURN(auto made,
                           With(std::make_shared<const NoiseKey>(std::move(key)), scenario, parts, fixed_share));
  for (const RoundRow& row : rows) {
    if (!row.noise_multiplier) continue;
    NoisedRounds attempt = made->attempt_;
    attempt.multiplier = *row.noise_multiplier;
    attempt.rate = row.sampling_rate.value_or(1);
    RIVULET_RETURN_IF_ERROR(made->book_.Charge(attempt));
  }
  return made;
}

// Correlated noise is accounted for as a whole, over all versions; each attempt counts as one. With fresh noise, a
// spaced client takes part in some versions alone.
StatusOr<privacy::SpendBook::Epsilons> RunPrivacy::SpentWith(int64_t more) const {
  const bool correlated = noise_ && noise_->correlated();
  if (separation_ == 1 && !correlated) return more == 0 ? book_.Spent() : book_.SpentWith(attempt_);
  const int64_t attempts = book_.composition().total_rounds() + more;
  NoisedRounds whole = attempt_;
  whole.count = privacy::MostParticipations(attempts, separation_);
  if (correlated) {
    RIVULET_ASSIGN_OR_RETURN(whole, noise_->AsOneRound(attempts, separation_));
  }
  return privacy::SpendBook(book_.composition().relation, book_.delta()).SpentWith(whole);
}

StatusOr<RoundSpend> RunPrivacy::Charge() {
  RIVULET_RETURN_IF_ERROR(book_.Charge(attempt_));
  if (!next_) {
    RIVULET_ASSIGN_OR_RETURN(next_, SpentWith(0));
  }
  const privacy::SpendBook::Epsilons spent = *std::exchange(next_, std::nullopt);
  return RoundSpend{attempt_.multiplier, attempt_.rate, book_.delta(), spent.viewers, spent.participants};
}

StatusOr<std::string> RunPrivacy::Exhausted() {
  if (epsilon_ == 0) return "";
  if (!next_) {
    RIVULET_ASSIGN_OR_RETURN(next_, SpentWith(1));
  }
  if (next_->viewers <= epsilon_) return "";
  return fmt::format("another attempt would spend epsilon {:.4g} at delta {:g}, and privacy.epsilon is {:g}",
                     next_->viewers, book_.delta(), epsilon_);
}

records::RecordedPrivacy RunPrivacy::Recorded(const RoundSpend& spend, double clip) const {
  records::RecordedPrivacy recorded = {.mechanism = std::string(privacy::NameOf(attempt_.noise)),
                                       .parameters = {{"clip", clip},
                                                      {"noise_multiplier", spend.noise_multiplier},
                                                      {"sampling_rate", spend.sampling_rate}},
                                       .delta = spend.delta,
                                       .unit = "client",
                                       .relation = std::string(privacy::NameOf(book_.composition().relation))};
  if (std::isfinite(spend.epsilon)) recorded.epsilon = spend.epsilon;
  if (std::isfinite(spend.participant_epsilon)) recorded.parameters["participant_epsilon"] = spend.participant_epsilon;
  // Of a seeded key the digest would reveal the seed to whoever tries them.
  if (!seeded_) {
    recorded.noise_key = Sha256Of({reinterpret_cast<const char*>(key_->data()), privacy::NoiseKey::kBytes});
  }
  return recorded;
}

std::string RunPrivacy::Sentence() const {
  const bool sampled = attempt_.sampled();
  if (attempt_.noise == privacy::NoiseLaw::kDiscreteLaplace) {
    return fmt::format(
        "discrete Laplace noise of {:.6g} times the clip by each client, {}; the unit is one client, neighbours are "
        "{}; one task spends epsilon {:.6g} against all, the coordinator included",
        attempt_.multiplier, seeded_ ? "seeded (a simulation's: knowledge of run.seed removes it)" : "secret",
        privacy::NameOf(book_.composition().relation), 2 / attempt_.multiplier);
  }
  return fmt::format(
      "noise of {:.6g} times the clip on the sums, {}{}; the unit is one client, neighbours are {}{}",
      attempt_.multiplier, noise_ ? "" : fmt::format("by {} honest clients of each sum, ", attempt_.contributors),
      seeded_ ? "seeded (a simulation's: knowledge of run.seed removes it)" : "secret",
      privacy::NameOf(book_.composition().relation), sampled ? fmt::format(", sampling rate {:g}", attempt_.rate) : "");
}

}  // namespace rivulet
