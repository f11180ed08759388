#include "inspect/privacy_spend.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace rivulet {
namespace {

std::string ValueOf(const ConfigKeys& keys, std::string_view key) {
  const auto found = std::ranges::find(keys, key, [](const auto& entry) { return std::string_view(entry.first); });
  return found == keys.end() ? "" : found->second;
}

std::string EpsilonText(const std::optional<double>& epsilon) {
  return epsilon ? fmt::format("epsilon {:.4g}", *epsilon) : std::string("no epsilon is small enough to say");
}

}  // namespace

std::vector<std::string> PrivacySentences(const RunOverview& page) {
  const auto last = std::find_if(page.attempts.rbegin(), page.attempts.rend(),
                                 [](const RoundRow& row) { return row.noise_multiplier.has_value(); });
  if (last == page.attempts.rend()) return {};
  const std::string delta = last->delta ? fmt::format(" at delta {:g}", *last->delta) : "";
  const std::string budget = ValueOf(page.keys, "privacy.epsilon");
  const bool poisson = ValueOf(page.keys, "selection.name") == "\"poisson\"";
  if (ValueOf(page.keys, "algorithm.noise") == "\"local\"") {
    return {
        fmt::format("{}{} of a client that took part in every attempt, against everybody{}", EpsilonText(last->epsilon),
                    delta, budget.empty() ? "" : fmt::format(", of a budget of {}", budget)),
        fmt::format("epsilon {:.4g} of each task", 2 / *last->noise_multiplier),
        "unit: one client; neighbours: replace-one, one client exchanged"};
  }
  std::vector<std::string> sentences = {
      fmt::format("{}{} against viewers of the models{}", EpsilonText(last->epsilon), delta,
                  budget.empty() ? "" : fmt::format(", of a budget of {}", budget)),
      fmt::format("{}{} against participants, who know who took part", EpsilonText(last->participant_epsilon), delta),
      poisson ? "unit: one client; neighbours: add-remove, one client more or fewer"
              : "unit: one client; neighbours: replace-one, one client exchanged"};
  if (ValueOf(page.keys, "algorithm.noise_source") == "\"seeded\"")
    sentences.emplace_back("seeded noise: anyone who knows run.seed can remove it");
  return sentences;
}

}  // namespace rivulet
