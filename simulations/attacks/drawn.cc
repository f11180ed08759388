// Updates without training. Gaussian ones are noise alone (Blanchard et al. 2017, "Machine learning with adversaries",
// arXiv:1703.02757, section 5): each value from N(0, deviation²). A free rider takes the model and contributes nothing
// (Fraboni et al. 2021, "Free-rider attacks on model aggregation in federated learning", arXiv:2006.11901): a delta of
// zeros, disguised by noise if a deviation is given.
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

class Drawn final : public Attack {
 public:
  explicit Drawn(double deviation) : deviation_(deviation) {}
  bool changes_updates() const override { return true; }
  Status Change(std::span<float> delta, Draws draws, const BenignFn&) const override {
    for (float& value : delta) value = deviation_ == 0 ? 0 : static_cast<float>(deviation_ * draws.Normal());
    return absl::OkStatus();
  }

 private:
  const double deviation_;
};

std::unique_ptr<const Attack> CreateDrawn(const Settings& settings, Attack::Features) {
  return std::make_unique<Drawn>(settings.number("deviation"));
}

RIVULET_ATTACK("gaussian",
               {Float("deviation", 1.0, "Standard deviation of each value of an attacker's update.").Above(0)},
               CreateDrawn);
RIVULET_ATTACK(
    "free_rider",
    {Float("deviation", 0.0, "Standard deviation of the noise that stands in for training; 0: none.").AtLeast(0)},
    CreateDrawn);

}  // namespace
}  // namespace rivulet
