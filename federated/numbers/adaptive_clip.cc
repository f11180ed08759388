// The clip of a version's updates, which follows a quantile of their norms (Andrew et al. 2021, arXiv:1905.03871). The
// next clip comes from the noised count of unclipped updates, divided by the planned number of clients
// (federated/privacy/adaptive_clip.h).
#include "federated/privacy/adaptive_clip.h"

#include "federated/numbers/number_rule.h"

namespace rivulet {
namespace {

constexpr char kClip[] = "clip";

class AdaptiveClipRule final : public NumberRule {
 public:
  AdaptiveClipRule(double first, const privacy::AdaptiveClip& rule, double planned)
      : first_(first), rule_(rule), planned_(planned) {}

  std::vector<std::string> Names() const override { return {kClip}; }
  ServerNumbers First() const override { return {{{kClip, first_}}, {}}; }

  ServerNumbers Next(const ServerNumbers& before, std::span<const ReportedLoss>, const Scalars& sums) const override {
    ServerNumbers next = before;
    double& clip = next.all[kClip];
    clip = privacy::NextClip(rule_, clip, sums.at(kUnclipped), planned_);
    return next;
  }

  Scalars Of(const ServerNumbers& numbers, const std::string&) const override {
    return {{kClip, numbers.all.at(kClip)}};
  }
  std::optional<double> UnitOf(const ServerNumbers& numbers) const override { return numbers.all.at(kClip); }

 private:
  const double first_;
  const privacy::AdaptiveClip rule_;
  const double planned_;
};

RIVULET_NUMBER_RULE(adaptive_clip_registration, "adaptive_clip",
                    {Float("first", std::nullopt, "Of version 0.").Above(0),
                     Float("quantile", 0.5, "Share of updates that are not clipped.").Between(0, 1),
                     Float("learning_rate", 0.2, "Of the logarithm of the clip.").Between(0, 10),
                     Float("planned", std::nullopt, "Clients of a version.").Above(0)},
                    [](const Settings& settings) -> std::unique_ptr<const NumberRule> {
                      return std::make_unique<AdaptiveClipRule>(
                          settings.number("first"),
                          privacy::AdaptiveClip{.quantile = settings.number("quantile"),
                                                .learning_rate = settings.number("learning_rate")},
                          settings.number("planned"));
                    });

}  // namespace
}  // namespace rivulet
