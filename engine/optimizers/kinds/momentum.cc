// SGD with a velocity v (Polyak 1964): v = momentum · v + g, w = w − learning_rate · v; Nesterov's moves by
// g + momentum · v.
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

Setting Nesterov() {
  Setting nesterov = Flag("nesterov", false, "Looks ahead: w = w − learning_rate · (g + momentum · v).");
  nesterov.example = "true";
  return nesterov;
}

std::vector<OptimizerSlot> MomentumSlots(const Settings&) { return {{"Momentum"}}; }

UpdateVariable MomentumUpdates(const UpdateScope& scope) {
  const Output rate = scope.learning_rate(), momentum = scope.Scalar("momentum");
  return [rate, momentum, nesterov = scope.settings().flag("nesterov")](const VariableUpdate& update) {
    return update.Apply("ResourceApplyMomentum", {rate, update.gradient, momentum}, {{"use_nesterov", nesterov}});
  };
}

RIVULET_OPTIMIZER(momentum_registration, {.name = "momentum",
                                          .doc = "SGD with momentum, also Nesterov's",
                                          .settings = {MomentumSetting(0.9), Nesterov()},
                                          .slots = MomentumSlots,
                                          .updates = MomentumUpdates});

}  // namespace
}  // namespace rivulet
