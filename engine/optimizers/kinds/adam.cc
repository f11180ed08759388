// Adam (Kingma and Ba, ICLR 2015), with PyTorch's defaults.
#include "engine/optimizers/bias_correction.h"
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

std::vector<OptimizerSlot> AdamSlots(const Settings&) { return {{"m"}, {"v"}}; }

UpdateVariable AdamUpdates(const UpdateScope& scope) {
  const BiasCorrection corrected(scope);
  const BetaInputs betas(scope);
  return [corrected, betas](const VariableUpdate& update) {
    return update.Apply("ResourceApplyAdam", {betas.no_power, betas.no_power, corrected.rate, betas.beta1, betas.beta2,
                                              corrected.epsilon, update.gradient});
  };
}

RIVULET_OPTIMIZER(adam_registration, {.name = "adam",
                                      .doc = "PyTorch's Adam",
                                      .settings = {Beta1Setting(), Beta2Setting(), EpsilonSetting(1e-8)},
                                      .corrects_bias = true,
                                      .slots = AdamSlots,
                                      .updates = AdamUpdates});

}  // namespace
}  // namespace rivulet
