// Adadelta (Zeiler, arXiv:1212.5701), with PyTorch's defaults.
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

std::vector<OptimizerSlot> AdadeltaSlots(const Settings&) { return {{"accumulator"}, {"accumulated_updates"}}; }

UpdateVariable AdadeltaUpdates(const UpdateScope& scope) {
  const Output rate = scope.learning_rate(), rho = scope.Scalar("rho"), epsilon = scope.Scalar("epsilon");
  return [rate, rho, epsilon](const VariableUpdate& update) {
    return update.Apply("ResourceApplyAdadelta", {rate, rho, epsilon, update.gradient});
  };
}

RIVULET_OPTIMIZER(adadelta_registration, {.name = "adadelta",
                                          .doc = "PyTorch's Adadelta",
                                          .settings = {RhoSetting(), EpsilonSetting(1e-6)},
                                          .slots = AdadeltaSlots,
                                          .updates = AdadeltaUpdates});

}  // namespace
}  // namespace rivulet
