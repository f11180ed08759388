// Huber's loss (Huber 1964) of numbers: with e the error, e² / 2 up to |e| = δ, δ · (|e| − δ / 2) beyond.
#include "engine/layers/losses.h"
#include "engine/models/objectives/objective.h"

namespace rivulet {
namespace {

Output HuberOfNumbers(const Scope& scope, const ScoredTargets& targets, const Settings& settings) {
  return HuberLoss(scope, targets.scores, targets.target, settings.number("huber_delta"));
}

Setting Delta() {
  Setting delta = Float("huber_delta", 1, "Error up to which the loss is quadratic; beyond it is linear.").Above(0);
  delta.example = "0.5";
  return delta;
}

RIVULET_OBJECTIVE(huber_registration, {.name = "huber",
                                       .doc = "Huber's loss, of numbers",
                                       .settings = {Delta()},
                                       .of_numbers = HuberOfNumbers});

}  // namespace
}  // namespace rivulet
