// FedNova (Wang et al. 2020, arXiv:2007.07481, equation 7): clients with more steps than others would pull the model to
// their own optimum. Each change is divided by its number of steps τ_k, and the mean of the quotients is multiplied by
// the mean number of steps, τ_eff:
//
//   w ← w + server.learning_rate · τ_eff · Σ_k p_k (w_k − w) / τ_k,    τ_eff = Σ_k p_k τ_k
//
// with p_k = n_k / n, or uniform by server.weights. This holds for plain SGD, where ‖a_k‖_1 is τ_k. If all clients take
// one number of steps, it is federated averaging: to the bit if that is a power of two and sums round nothing.
#include "federated/algorithms/algorithm.h"
#include "federated/plan/learning_rate.h"

namespace rivulet {
namespace {

constexpr char kNormalized[] = "update/normalized";

StatusOr<Composition> FedNova(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  if (scenario.client.optimizer.kind != "sgd" || !IsConstant(scenario.client.schedule)) {
    return InvalidArgument(
        "[algorithm] name = \"fednova\" counts plain steps: it needs client.optimizer.kind = \"sgd\", not \"{}\", and "
        "no client.schedule",
        scenario.client.optimizer.kind);
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  for (PassBuilder& pass : composition.passes) {
    pass.at_end = [](FlatScope& f) { f.Assign(kNormalized, f.Over(f.Sub(f.params(), f.base_params()), f.steps())); };
  }
  composition.parts["delta"] = {.from = kNormalized, .less = ""};
  const std::string weigh = scenario.server.weights == "uniform" ? "one" : "examples";
  composition.aggregation.scalars = {{"steps", weigh}};
  composition.server_optimizer = {"nova"};
  return composition;
}

RIVULET_ALGORITHM(
    fednova_registration, "fednova", "Wang et al. 2020, arXiv:2007.07481, equation 7",
    "Federated averaging in which clients that take many steps count no more for it: changes are divided by their "
    "numbers of steps τ_k before the mean. Needs `client.optimizer.kind` \"sgd\" at a constant rate.",
    {}, FedNova,
    "τ_eff = Σ_k (n_k / n) · τ_k\n"
    "w ← w + server.learning_rate · τ_eff · Σ_k (n_k / n) · (w_k − w) / τ_k");

}  // namespace
}  // namespace rivulet
