// RMSProp (Tieleman and Hinton 2012) as TensorFlow's op, with epsilon under the root. Rho and epsilon are Keras'
// defaults, and momentum is 0.
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

Setting Centered() {
  Setting centered = Flag("centered", false, "Divides by the gradients' deviation instead of their root mean square.");
  centered.example = "true";
  return centered;
}

std::vector<OptimizerSlot> RmsPropSlots(const Settings& settings) {
  if (settings.flag("centered")) return {{"mean_gradient"}, {"mean_square"}, {"Momentum"}};
  return {{"mean_square"}, {"Momentum"}};
}

UpdateVariable RmsPropUpdates(const UpdateScope& scope) {
  const Output momentum = scope.Scalar("momentum"), rho = scope.Scalar("rho"), epsilon = scope.Scalar("epsilon");
  const char* const op = scope.settings().flag("centered") ? "ResourceApplyCenteredRMSProp" : "ResourceApplyRMSProp";
  return [op, rate = scope.learning_rate(), momentum, rho, epsilon](const VariableUpdate& update) {
    return update.Apply(op, {rate, rho, momentum, epsilon, update.gradient});
  };
}

RIVULET_OPTIMIZER(rmsprop_registration,
                  {.name = "rmsprop",
                   .doc = "TensorFlow's RMSProp, with epsilon under the root",
                   .settings = {MomentumSetting(0), RhoSetting(), Centered(), EpsilonSetting(1e-7)},
                   .slots = RmsPropSlots,
                   .updates = RmsPropUpdates});

}  // namespace
}  // namespace rivulet
