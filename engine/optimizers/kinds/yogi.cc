// Yogi (Zaheer, Reddi, Sachan, Kale and Kumar, NeurIPS 2018), with its paper's epsilon and first value.
#include "engine/optimizers/bias_correction.h"
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

std::vector<OptimizerSlot> YogiSlots(const Settings& settings) {
  return {{"m", 0}, {"v", settings.number("initial_accumulator")}};
}

UpdateVariable YogiUpdates(const UpdateScope& scope) {
  const BiasCorrection corrected(scope);
  const BetaInputs betas(scope);
  return [corrected, betas](const VariableUpdate& update) {
    return update.Apply("ResourceApplyYogi", {betas.no_power, betas.no_power, corrected.rate, betas.beta1, betas.beta2,
                                              corrected.epsilon, update.gradient});
  };
}

RIVULET_OPTIMIZER(yogi_registration,
                  {.name = "yogi",
                   .doc = "Yogi as in its paper (Zaheer et al. 2018)",
                   .settings = {Beta1Setting(), Beta2Setting(), EpsilonSetting(1e-3), InitialAccumulatorSetting(1e-6)},
                   .corrects_bias = true,
                   .slots = YogiSlots,
                   .updates = YogiUpdates});

}  // namespace
}  // namespace rivulet
