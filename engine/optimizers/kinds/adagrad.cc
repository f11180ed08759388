// Adagrad (Duchi, Hazan and Singer, JMLR 2011), with PyTorch's defaults. Of a sparse gradient it touches the rows that
// have one, with the bits of the dense step.
#include "engine/gradients/indexed_slices.h"
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

std::vector<OptimizerSlot> AdagradSlots(const Settings& settings) {
  return {{"accumulator", settings.number("initial_accumulator")}};
}

UpdateVariable AdagradUpdates(const UpdateScope& scope) {
  return [rate = scope.learning_rate(), epsilon = scope.Scalar("epsilon")](const VariableUpdate& update) {
    if (const auto rows = AsIndexedSlices(update.gradient))
      return update.Apply("ResourceSparseApplyAdagradV2", {rate, epsilon, rows->values, rows->indices});
    return update.Apply("ResourceApplyAdagradV2", {rate, epsilon, update.gradient});
  };
}

RIVULET_OPTIMIZER(adagrad_registration, {.name = "adagrad",
                                         .doc = "PyTorch's Adagrad",
                                         .settings = {EpsilonSetting(1e-10), InitialAccumulatorSetting(0)},
                                         .slots = AdagradSlots,
                                         .updates = AdagradUpdates});

}  // namespace
}  // namespace rivulet
