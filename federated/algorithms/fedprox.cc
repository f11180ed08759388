// FedProx (Li et al. 2020, arXiv:1812.06127, algorithm 2): federated averaging whose clients stay near the received
// model. From w^t a client minimises, instead of its loss F_k alone (equation 2),
//
//   h_k(w; w^t) = F_k(w) + (mu / 2) · ‖w − w^t‖²,    so    ∇h_k = ∇F_k(w) + mu · (w − w^t)
//
// by local work of client.epochs; the paper lets each client do a different amount. mu = 0 is federated averaging. With
// mu_step the server changes mu from version to version, following the loss (federated/numbers/adaptive_mu.cc).
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting Mu() {
  Setting mu = Float("mu", 0.01, "Weight of the proximal term; 0 is federated averaging.").Between(0, 1e6);
  mu.example = "0.1";
  return mu;
}

Setting Step() {
  Setting step = Float("mu_step", 0,
                       "Rise of `mu` when the mean loss of a round's clients rises, and its fall after `mu_falls` "
                       "falls of the loss in turn; `mu` is its start. 0: it stays.")
                     .Between(0, 1e6);
  step.example = "0.1";
  return step;
}

Setting Falls() {
  Setting falls = Integer("mu_falls", 5, "So many losses that fall one after the other lower `mu`.").Between(1, 1e6);
  falls.example = "2";
  return falls;
}

StatusOr<Composition> FedProx(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  const Settings& settings = context.settings;
  const double step = settings.number("mu_step");
  if (step > 0) {
    composition.numbers = {"mu"};
    composition.number_rule = {
        "adaptive_mu", {{"first", settings.number("mu")}, {"step", step}, {"falls", settings.integer("mu_falls")}}};
  }
  for (PassBuilder& pass : composition.passes) {
    pass.gradient = [mu = settings.number("mu"), moves = step > 0](FlatScope& f) {
      const Output away = f.Sub(f.params(), f.base_params());
      return f.Add(f.grads(), moves ? f.Scale(f.Read("numbers/mu"), away) : f.Scale(mu, away));
    };
  }
  return composition;
}

RIVULET_ALGORITHM(
    fedprox_registration, "fedprox", "Li et al. 2020, arXiv:1812.06127, algorithm 2",
    "Federated averaging with a proximal term: each client minimises its loss plus `mu` / 2 times the squared "
    "distance of its weights to the received ones. It keeps clients with unlike data from drifting apart.",
    {Mu(), Step(), Falls()}, FedProx,
    "∇h_k(w) = ∇F_k(w) + mu · (w − w^t)\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
