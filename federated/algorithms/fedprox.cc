// FedProx (Li et al. 2020, arXiv:1812.06127, algorithm 2): federated averaging whose clients stay near the model that
// they were given. From w^t a client does not minimise its loss F_k alone, but (equation 2)
//
//   h_k(w; w^t) = F_k(w) + (mu / 2) · ‖w − w^t‖²,    so    ∇h_k = ∇F_k(w) + mu · (w − w^t)
//
// by as much local work as it can do: here client.epochs. mu = 0 is federated averaging.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting Mu() {
  Setting mu = Float("mu", 0.01, "Weight of the proximal term; 0 is federated averaging.").Between(0, 1e6);
  mu.example = "0.1";
  return mu;
}

StatusOr<Composition> FedProx(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  for (PassBuilder& pass : composition.passes) {
    pass.gradient = [mu = context.settings.number("mu")](FlatScope& f) {
      return f.Add(f.grads(), f.Scale(mu, f.Sub(f.params(), f.base_params())));
    };
  }
  return composition;
}

RIVULET_ALGORITHM(
    fedprox_registration, "fedprox", "Li et al. 2020, arXiv:1812.06127, algorithm 2",
    "Federated averaging with a proximal term: each client minimises its loss plus `mu` / 2 times the squared distance "
    "of its weights to those that it was given, which keeps clients with unlike data from drifting apart.",
    {Mu()}, FedProx,
    "∇h_k(w) = ∇F_k(w) + mu · (w − w^t)\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
