// A scale that follows the gradients (Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2). It is
// halved at once and doubled slowly: too large a scale wastes steps, too small a scale only digits. Both changes are by
// a factor of two and exact.
#include "federated/plan/loss_scale.h"
#include "federated/plan/number.h"

namespace rivulet {
namespace {

double FirstScale(const Settings& settings) { return settings.number("scale"); }

Status AdaptScale(const Settings& settings, LossScaleUpdate& update) {
  const Scope& scope = update.scope();
  RIVULET_ASSIGN_OR_RETURN(const Output good_steps, update.AddScalar(0));
  const Output good = scope.Op("AddV2", {update.Read(good_steps), Number(scope, 1)});
  const Output full = scope.Op(
      "GreaterEqual", {good, Number(scope, static_cast<double>(settings.integer("growth_steps")))}, {}, "scale_grows");
  const auto times = [&](double factor) { return scope.Op("Mul", {update.scale(), Number(scope, factor)}); };
  const Output grown = scope.Op("Minimum", {times(2), Number(scope, kLargestLossScale)});
  const Output shrunk = scope.Op("Maximum", {times(0.5), Number(scope, kSmallestLossScale)});
  const Output none = Number(scope, 0);
  const auto choose = [&](Output condition, Output a, Output b) { return scope.Op("SelectV2", {condition, a, b}); };
  RIVULET_RETURN_IF_ERROR(update.SetScale(choose(update.finite(), choose(full, grown, update.scale()), shrunk)));
  return update.Assign(good_steps, choose(update.finite(), choose(full, none, good), none));
}

RIVULET_LOSS_SCALING(
    dynamic_scaling_registration,
    {.name = "dynamic",
     .doc = "halves the scale after such a step and doubles it after `client.loss_scale.growth_steps` good ones",
     .settings = {LossScaleSetting("The scale of a task's first step. A power of two rounds nothing."),
                  WithExample(Integer("growth_steps", 2000, "Good steps in a row after which the scale doubles.")
                                  .Between(1, 1e9),
                              "100")},
     .first = FirstScale,
     .adapt = AdaptScale});

}  // namespace
}  // namespace rivulet
