// Squared errors: of numbers, and of every score against 1 for the class and 0 for the others.
#include "engine/layers/losses.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

Output SquaredErrorsOfClass(const Scope& scope, const ScoredTargets& targets, const Settings&) {
  return scope.Op("SquaredDifference", {targets.scores, OneHotOf(scope, targets)}, {}, "squared_error");
}

Output SquaredErrorsOfNumbers(const Scope& scope, const ScoredTargets& targets, const Settings&) {
  return SquaredError(scope, targets.scores, targets.target);
}

RIVULET_OBJECTIVE(mse_registration, {.name = "mse",
                                     .doc = "squared error, of numbers or of a class's scores",
                                     .of_class = SquaredErrorsOfClass,
                                     .of_numbers = SquaredErrorsOfNumbers});

}  // namespace
}  // namespace rivulet
