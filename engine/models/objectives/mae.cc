// Absolute errors of numbers.
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

Output AbsoluteErrorsOfNumbers(const Scope& scope, const ScoredTargets& targets, const Settings&) {
  return scope.Op("Abs", {scope.Op("Sub", {targets.scores, targets.target})});
}

RIVULET_OBJECTIVE(mae_registration,
                  {.name = "mae", .doc = "absolute error, of numbers", .of_numbers = AbsoluteErrorsOfNumbers});

}  // namespace
}  // namespace rivulet
