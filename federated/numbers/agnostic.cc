// The weights of clients by their losses: projected ascent on the simplex of mixtures (Mohri et al. 2019,
// arXiv:1902.00146, figure 2, with clients as domains). Of the n clients that have reported a loss, with λ_k = w_k / n,
//
//   λ ← Π_Λ(λ + learning_rate · L(λ)'s gradient, which is each client's loss),   Λ = {λ : Σ λ_k = 1, λ_k ≥ least / n}
//
// Λ is convex, as the paper requires: the simplex without weights that fixed-point sums cannot hold. With memory, a
// client outside the cohort counts with its last reported loss, otherwise with none. A client without any report has
// the weight 1, the mean of all weights.
#include <algorithm>
#include <cmath>
#include <functional>

#include "federated/numbers/number_rule.h"

namespace rivulet {
namespace {

constexpr char kWeight[] = "weight", kLoss[] = "loss";
constexpr int64_t kMostClients = 100'000;

class Agnostic final : public NumberRule {
 public:
  Agnostic(double learning_rate, double least, bool memory)
      : learning_rate_(learning_rate), least_(least), memory_(memory) {}

  std::vector<std::string> Names() const override { return {kWeight}; }
  ServerNumbers First() const override { return {}; }

  ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss> told, const Scalars&) const override {
    ServerNumbers next = before;
    if (!memory_) {
      for (auto& [client_id, of] : next.clients) of[kLoss] = 0;
    }
    for (const ReportedLoss& of : told) {
      if (!std::isfinite(of.loss)) continue;
      Scalars& client = next.clients[of.client_id];
      client.try_emplace(kWeight, 1);
      client[kLoss] = of.loss;
    }
    if (learning_rate_ == 0) return next;
    // In units of 1 / n all weights sum to n, and a step of λ is n times as long.
    const auto clients = static_cast<double>(next.clients.size());
    if (next.clients.empty()) return next;
    std::vector<double> raised;
    for (const auto& [client_id, of] : next.clients) {
      raised.push_back(of.at(kWeight) + learning_rate_ * clients * of.at(kLoss));
    }
    const double shift = ShiftOf(raised);
    size_t i = 0;
    for (auto& [client_id, of] : next.clients) of[kWeight] = std::max(least_, raised[i++] - shift);
    return next;
  }

  Scalars Of(const ServerNumbers& numbers, const std::string& client_id) const override {
    const auto client = numbers.clients.find(client_id);
    return {{kWeight, client == numbers.clients.end() ? 1 : client->second.at(kWeight)}};
  }

  int64_t most_clients() const override { return kMostClients; }

 private:
  // The t for which Σ max(least, v_k − t) = n: the Euclidean projection (Duchi et al. 2008, figure 1).
  double ShiftOf(std::vector<double> values) const {
    std::ranges::sort(values, std::greater<>());
    const auto n = static_cast<double>(values.size());
    double sum = 0, shift = values[0] - least_;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += values[i];
      const auto above = static_cast<double>(i + 1);
      const double here = (sum + (n - above) * least_ - n) / above;
      if (values[i] - here <= least_) break;
      shift = here;
    }
    return shift;
  }

  const double learning_rate_, least_;
  const bool memory_;
};

RIVULET_NUMBER_RULE(agnostic_registration, "agnostic",
                    {Float("learning_rate", 0.01, "Of the ascent.").Between(0, 1e6),
                     Float("least", 0.01, "Lower bound of a client's weight.").Between(0.001, 1),
                     Flag("memory", true, "Clients outside the cohort count by their last loss.")},
                    [](const Settings& settings) -> std::unique_ptr<const NumberRule> {
                      return std::make_unique<Agnostic>(settings.number("learning_rate"), settings.number("least"),
                                                        settings.flag("memory"));
                    });

}  // namespace
}  // namespace rivulet
