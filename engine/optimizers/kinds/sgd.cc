// Plain descent: w = w − learning_rate · g. Of a sparse gradient it touches the rows that have one, with the bits of
// the dense step.
#include "engine/gradients/indexed_slices.h"
#include "engine/optimizers/kind.h"

namespace rivulet {
namespace {

UpdateVariable SgdUpdates(const UpdateScope& scope) {
  return [rate = scope.learning_rate()](const VariableUpdate& update) {
    if (const auto rows = AsIndexedSlices(update.gradient))
      return update.Apply("ResourceSparseApplyGradientDescent", {rate, rows->values, rows->indices});
    return update.Apply("ResourceApplyGradientDescent", {rate, update.gradient});
  };
}

RIVULET_OPTIMIZER(sgd_registration, {.name = "sgd", .doc = "descends by the gradient", .updates = SgdUpdates});

}  // namespace
}  // namespace rivulet
