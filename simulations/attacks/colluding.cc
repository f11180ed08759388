// Colluding attackers: from their benign updates they estimate all updates, and all send the same one. "A little is
// enough" (Baruch et al. 2019, arXiv:1902.06156, algorithm 3) stays within the variation of benign updates: mean − z ×
// deviation. Inner product manipulation (Xie et al. 2020, "Fall of empires", arXiv:1903.03936, section 3) reverses the
// mean's direction: −epsilon × mean.
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

// by_mean × mean + by_deviation × deviation
class Colluding final : public Attack {
 public:
  Colluding(double by_mean, double by_deviation, int64_t colluders)
      : by_mean_(by_mean), by_deviation_(by_deviation), colluders_(colluders) {}
  bool changes_updates() const override { return true; }
  int64_t colluders() const override { return colluders_; }
  Status Change(std::span<float> delta, Draws, const BenignFn& benign) const override {
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const BenignUpdates> others, benign());
    for (size_t i = 0; i < delta.size(); ++i) {
      delta[i] = static_cast<float>(by_mean_ * others->mean[i] + by_deviation_ * others->deviation[i]);
    }
    return absl::OkStatus();
  }

 private:
  const double by_mean_, by_deviation_;
  const int64_t colluders_;
};

Setting Colluders(int64_t least) {
  return Integer("colluders", 5,
                 "Attackers that train for the estimate, once for each model that is attacked; fewer where there are "
                 "fewer.")
      .Between(static_cast<double>(least), 1000);
}

RIVULET_ATTACK("alie", {Float("z", 1.5, "Deviations from the mean."), Colluders(2)},
               [](const Settings& settings, Attack::Features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<Colluding>(1, -settings.number("z"), settings.integer("colluders"));
               });
RIVULET_ATTACK("ipm", {Float("epsilon", 0.5, "Share of the mean, turned round.").Above(0), Colluders(1)},
               [](const Settings& settings, Attack::Features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<Colluding>(-settings.number("epsilon"), 0, settings.integer("colluders"));
               });

}  // namespace
}  // namespace rivulet
