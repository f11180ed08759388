// Ditto (Li et al. 2021, arXiv:2012.04221, algorithm 1): federated averaging in which each client k also learns a
// personal model v_k that stays near the shared one. With w^t the model at a task's start (equation 1 and line 9),
//
//   min over v_k:  F_k(v_k) + (lambda / 2) · ‖v_k − w*‖²,    so    v_k ← v_k − η · (∇F_k(v_k) + lambda · (v_k − w^t))
//
// for as many steps as the shared model takes. v_k never leaves its client; it starts as the model of the client's
// first task. The shared model is federated averaging's, to the bit, for every lambda.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kPersonal[] = "state/personal";

Setting Lambda() {
  Setting lambda =
      Float("lambda", 0.1, "How near a client's own model stays to the shared one; 0: it is trained alone.")
          .Between(0, 1e6);
  lambda.example = "1";
  return lambda;
}

StatusOr<Composition> Ditto(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = "personal", .from_base = true}};
  composition.personal = kPersonal;
  PassBuilder personal;
  personal.models = {{.buffer = kPersonal}};
  personal.trains = kPersonal;
  personal.reports = "personal_loss";
  personal.gradient = [lambda = context.settings.number("lambda")](FlatScope& f) {
    return f.Add(f.grads(), f.Scale(lambda, f.Sub(f.Read(kPersonal), f.base_params())));
  };
  composition.passes.push_back(std::move(personal));
  return composition;
}

RIVULET_ALGORITHM(
    ditto_registration, "ditto", "Li et al. 2021, arXiv:2012.04221, algorithm 1",
    "Federated averaging, beside which each client trains a personal model, kept near the shared one by a proximal "
    "term. It is fair and robust if clients' data differ. The shared model equals federated averaging's.",
    {Lambda()}, Ditto,
    "v_k ← v_k − client.optimizer.learning_rate · (∇F_k(v_k) + lambda · (v_k − w^t))\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
