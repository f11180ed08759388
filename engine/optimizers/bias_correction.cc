#include "engine/optimizers/bias_correction.h"

namespace rivulet {
namespace {

Output Wide(const UpdateScope& scope, double value, std::string_view name) {
  return scope.scope().Const(Tensor::Scalar(value), name);
}

}  // namespace

BiasCorrection::BiasCorrection(const UpdateScope& scope) {
  const Scope& graph = scope.scope();
  const Output one = Wide(scope, 1, "one");
  first = graph.Op("Sub", {one, scope.beta1_power()});
  second = graph.Op("Sqrt", {graph.Op("Sub", {one, scope.beta2_power()})});
  const Output wide_rate = scope.Widened(scope.learning_rate());
  rate = scope.Narrowed(graph.Op("RealDiv", {graph.Op("Mul", {wide_rate, second}), first}));
  epsilon = scope.Narrowed(graph.Op("Mul", {Wide(scope, scope.settings().number("epsilon"), "epsilon"), second}));
}

BetaInputs::BetaInputs(const UpdateScope& scope)
    : beta1(scope.Scalar("beta1")), beta2(scope.Scalar("beta2")), no_power(scope.Constant(0, "no_power")) {}

}  // namespace rivulet
