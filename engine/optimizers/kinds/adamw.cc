// AdamW (Loshchilov and Hutter, ICLR 2019): Adam whose weight decay multiplies the weights, with PyTorch's defaults.
#include "engine/optimizers/bias_correction.h"
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

std::vector<OptimizerSlot> AdamWSlots(const Settings&) { return {{"m"}, {"v"}}; }

UpdateVariable AdamWUpdates(const UpdateScope& scope) {
  const Scope& graph = scope.scope();
  const BiasCorrection corrected(scope);
  // The op decays by its learning rate, which is now the corrected one.
  const Output decay = graph.Const(Tensor::Scalar(scope.settings().number("weight_decay")), "weight_decay");
  const Output weight_decay =
      scope.Narrowed(graph.Op("RealDiv", {graph.Op("Mul", {decay, corrected.first}), corrected.second}));
  const BetaInputs betas(scope);
  return [corrected, weight_decay, betas](const VariableUpdate& update) {
    return update.Apply("ResourceApplyAdamW", {betas.no_power, betas.no_power, corrected.rate, betas.beta1, betas.beta2,
                                               corrected.epsilon, weight_decay, update.gradient});
  };
}

RIVULET_OPTIMIZER(adamw_registration, {.name = "adamw",
                                       .doc = "PyTorch's AdamW, with decoupled weight decay",
                                       .settings = {Beta1Setting(), Beta2Setting(), EpsilonSetting(1e-8)},
                                       .weight_decay = 0.01,
                                       .decays_itself = true,
                                       .corrects_bias = true,
                                       .slots = AdamWSlots,
                                       .updates = AdamWUpdates});

}  // namespace
}  // namespace rivulet
