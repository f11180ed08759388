#include "cli/privacy/rounds_options.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace rivulet {
namespace {

using privacy::NoisedRounds;
using privacy::Relation;
using privacy::SamplingKind;

std::optional<double> RealOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

StatusOr<double> RealOption(std::string_view flag, const std::string& text) {
  const std::optional<double> value = RealOf(text);
  if (!value) return UsageError("{} takes a number, and '{}' is not one", flag, Shortened(text));
  return *value;
}

// "SIGMA,RATE,ROUNDS" of --with.
StatusOr<NoisedRounds> OtherRounds(const std::string& text, const NoisedRounds& like) {
  const auto refuse = [&] {
    return UsageError("--with takes SIGMA,RATE,ROUNDS such as 1.1,0.01,500, and '{}' is not that", Shortened(text));
  };
  std::vector<double> numbers;
  for (std::string_view rest = text; numbers.size() < 3;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::optional<double> number = RealOf(rest.substr(0, comma));
    if (!number) return refuse();
    numbers.push_back(*number);
    if (comma == rest.size()) break;
    if (numbers.size() == 3) return refuse();
    rest.remove_prefix(comma + 1);
  }
  if (numbers.size() != 3 || numbers[2] != std::floor(numbers[2]) || std::abs(numbers[2]) > 1e12) return refuse();
  NoisedRounds rounds = like;
  rounds.multiplier = numbers[0];
  rounds.rate = numbers[1];
  rounds.count = static_cast<int64_t>(numbers[2]);
  return rounds;
}

std::string SamplingText(const NoisedRounds& rounds) {
  if (!rounds.sampled()) return "none";
  return fmt::format("{} {:.10g}",
                     rounds.sampling == SamplingKind::kPoisson ? "Poisson, each member with probability"
                                                               : "a cohort of fixed size, of all members the share",
                     rounds.rate);
}

std::string_view RelationText(Relation relation) {
  return relation == Relation::kAddRemove ? "add-remove: one member more or fewer"
                                          : "replace-one: one member exchanged for another";
}

}  // namespace

void AddPrivacyOptions(Command& command, PrivacyOptions* options, const PrivacyQuestion& question) {
  if (question.sigma) {
    command.Required("--sigma", "X", &options->sigma,
                     "noise multiplier: deviation of the noise on the sum over the clip");
  }
  if (question.rounds) command.Required("--rounds", "N", &options->rounds, "number of rounds", {.min = 0});
  if (question.epsilon) command.Required("--epsilon", "E", &options->epsilon, "the budget's epsilon");
  if (question.delta) command.Required("--delta", "D", &options->delta, "the budget's delta, such as 1e-5");
  command
      .Option(
          "--rate", "Q", &options->rate,
          "share of sampled members: by Poisson sampling, or with --relation replace-one as a cohort of fixed size [1]")
      .Option("--noise", "LAW", &options->noise, "gaussian, laplace, discrete-gaussian or discrete-laplace [gaussian]")
      .Option("--relation", "R", &options->relation,
              "neighbouring inputs: add-remove or replace-one; in the latter, one member changes the sum by up to "
              "twice the clip [add-remove]")
      .Option("--sensitivity", "U", &options->sensitivity, "for discrete noise: the clip in units [1]")
      .Option("--dimension", "N", &options->dimension, "for discrete and Laplace noise: coordinates of the sum [1]")
      .Option("--contributors", "N", &options->contributors,
              "honest clients whose discrete Gaussian noise adds up to --sigma [1]")
      .Repeated("--with", "SIGMA,RATE,ROUNDS", &options->with, "add rounds of the same kind of noise")
      .Option("--accountant", "NAME", &options->accountant,
              "pld (tight), rdp, zcdp, or gdp (with sampling an estimate) [pld]")
      .Flag("--json", &options->json, "print one JSON object");
}

StatusOr<PrivacyTask> PrivacyTaskOf(const PrivacyOptions& options, const PrivacyQuestion& question) {
  PrivacyTask task;
  StatusOr<privacy::Accountant> accountant = privacy::AccountantNamed(options.accountant);
  if (!accountant.ok()) return AsUsageError(accountant.status());
  task.accountant = *accountant;
  StatusOr<Relation> relation = privacy::RelationNamed(options.relation);
  if (!relation.ok()) return AsUsageError(relation.status());
  task.composition.relation = *relation;
  NoisedRounds rounds;
  StatusOr<privacy::NoiseLaw> noise = privacy::NoiseLawNamed(options.noise);
  if (!noise.ok()) return AsUsageError(noise.status());
  rounds.noise = *noise;
  const auto read = [](std::string_view flag, const std::string& text, double* value) -> Status {
    if (text.empty()) return absl::OkStatus();
    RIVULET_ASSIGN_OR_RETURN(*value, RealOption(flag, text));
    return absl::OkStatus();
  };
  if (question.sigma) RIVULET_RETURN_IF_ERROR(read("--sigma", options.sigma, &rounds.multiplier));
  RIVULET_RETURN_IF_ERROR(read("--rate", options.rate, &rounds.rate));
  RIVULET_RETURN_IF_ERROR(read("--sensitivity", options.sensitivity, &rounds.sensitivity));
  RIVULET_RETURN_IF_ERROR(read("--epsilon", options.epsilon, &task.epsilon));
  RIVULET_RETURN_IF_ERROR(read("--delta", options.delta, &task.dp_delta));
  rounds.count = options.rounds.value_or(1);
  rounds.dimension = options.dimension.value_or(1);
  rounds.contributors = options.contributors.value_or(1);
  rounds.sampling = *relation == Relation::kAddRemove ? SamplingKind::kPoisson : SamplingKind::kFixed;
  for (const std::string& text : options.with) {
    RIVULET_ASSIGN_OR_RETURN(const NoisedRounds other, OtherRounds(text, rounds));
    task.composition.rounds.push_back(other);
  }
  task.composition.rounds.push_back(rounds);
  for (NoisedRounds& one : task.composition.rounds) {
    if (one.rate == 1) one.sampling = SamplingKind::kNone;
  }
  RIVULET_RETURN_IF_ERROR(AsUsageError(privacy::Check(task.composition)));
  return task;
}

void AppendPrivacyContext(const PrivacyTask& task, bool json, Fields& fields) {
  const NoisedRounds& rounds = task.composition.rounds.back();
  if (json) {
    fields.emplace_back("noise", std::string(NameOf(rounds.noise)));
    fields.emplace_back("relation", std::string(NameOf(task.composition.relation)));
    fields.emplace_back("rate", rounds.rate);
    fields.emplace_back("accountant", std::string(NameOf(task.accountant)));
    return;
  }
  fields.emplace_back("noise", std::string(NameOf(rounds.noise)));
  fields.emplace_back("neighbours", std::string(RelationText(task.composition.relation)));
  fields.emplace_back("sampling", SamplingText(rounds));
  fields.emplace_back("accountant", std::string(NameOf(task.accountant)));
}

std::string PrivacyNumberText(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "infinite"; }

Cell PrivacyNumberCell(double value, bool json) {
  if (!json) return PrivacyNumberText(value);
  return std::isfinite(value) ? Cell(value) : Cell();
}

}  // namespace rivulet
