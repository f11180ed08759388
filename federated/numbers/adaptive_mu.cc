// The proximal weight of FedProx, adapted during a run (Li et al. 2020, arXiv:1812.06127, section 5.3.2 and appendix
// C.3.3): "increase mu by 0.1 when the loss increases and decrease it by 0.1 when the loss decreases for 5 consecutive
// rounds". The loss is the mean training loss over the examples of the version's clients. The paper uses the loss of
// all clients, which a server with sampled cohorts does not know.
#include <algorithm>
#include <cmath>

#include "federated/numbers/number_rule.h"

namespace rivulet {
namespace {

constexpr char kMu[] = "mu", kLastLoss[] = "loss", kFalls[] = "falls";

class AdaptiveMu final : public NumberRule {
 public:
  AdaptiveMu(double first, double step, int64_t falls) : first_(first), step_(step), falls_(falls) {}

  std::vector<std::string> Names() const override { return {kMu}; }
  ServerNumbers First() const override { return {{{kMu, first_}}, {}}; }

  ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss> told, const Scalars&) const override {
    double sum = 0, examples = 0;
    for (const ReportedLoss& of : told) {
      if (!std::isfinite(of.loss)) continue;
      sum += static_cast<double>(of.examples) * of.loss;
      examples += static_cast<double>(of.examples);
    }
    if (examples == 0) return before;
    const double loss = sum / examples;
    ServerNumbers next = before;
    const auto last = before.all.find(kLastLoss);
    next.all[kLastLoss] = loss;
    if (last == before.all.end() || loss == last->second) return next;
    double& mu = next.all[kMu];
    double& falls = next.all[kFalls];
    falls = loss > last->second ? 0 : falls + 1;
    if (loss > last->second) mu += step_;
    if (falls < static_cast<double>(falls_)) return next;
    mu = std::max(0.0, mu - step_);
    falls = 0;
    return next;
  }

  Scalars Of(const ServerNumbers& numbers, const std::string&) const override { return {{kMu, numbers.all.at(kMu)}}; }

 private:
  const double first_, step_;
  const int64_t falls_;
};

RIVULET_NUMBER_RULE(adaptive_mu_registration, "adaptive_mu",
                    {Float("first", 0, "Of version 0.").Between(0, 1e6),
                     Float("step", 0.1, "By how much it moves.").Between(0, 1e6),
                     Integer("falls", 5, "So many losses that fall one after the other lower it.").Between(1, 1e6)},
                    [](const Settings& settings) -> std::unique_ptr<const NumberRule> {
                      return std::make_unique<AdaptiveMu>(settings.number("first"), settings.number("step"),
                                                          settings.integer("falls"));
                    });

}  // namespace
}  // namespace rivulet
