// Scaled updates. Sign flipping moves the model against the honest clients' direction (Li et al. 2019, "RSA",
// arXiv:1811.03761, section 5.2): −scale × delta. Scaling makes one attacker count as many, for example to replace a
// model (Bagdasaryan et al. 2020, "How to backdoor federated learning", arXiv:1807.00459, equation 3): scale ×
// delta.
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

class Scaled final : public Attack {
 public:
  explicit Scaled(double factor) : factor_(static_cast<float>(factor)) {}
  bool changes_updates() const override { return true; }
  Status Change(std::span<float> delta, Draws, const BenignFn&) const override {
    for (float& value : delta) value *= factor_;
    return absl::OkStatus();
  }

 private:
  const float factor_;
};

RIVULET_ATTACK("sign_flip",
               {Float("scale", 1.0, "How many times its own update, turned round, an attacker sends.").Above(0)},
               [](const Settings& settings, Attack::Features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<Scaled>(-settings.number("scale"));
               });
RIVULET_ATTACK("scaling", {Float("scale", 10.0, "How many times its own update an attacker sends.").Above(0)},
               [](const Settings& settings, Attack::Features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<Scaled>(settings.number("scale"));
               });

}  // namespace
}  // namespace rivulet
