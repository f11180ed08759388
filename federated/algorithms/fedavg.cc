// Federated averaging (McMahan et al. 2017, arXiv:1602.05629, algorithm 1): each round a uniform cohort trains the
// model on its own data, and the server adds the mean of the changes, weighted by examples, to the model:
//
//   w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)
#include "federated/algorithms/algorithm.h"

namespace rivulet {

StatusOr<Composition> FedAvg(const AlgorithmContext&) {
  Composition composition;
  composition.passes.emplace_back();
  composition.parts["delta"] = {.from = "params", .less = "base_params", .shared_too = true};
  composition.aggregation.rule = "mean";
  return composition;
}

namespace {

RIVULET_ALGORITHM(
    fedavg_registration, "fedavg", "McMahan et al. 2017, arXiv:1602.05629, algorithm 1",
    "Federated averaging: uniform cohorts, `client.epochs` of local training with `client.optimizer`, and "
    "the mean of the changes weighted by examples, times `server.learning_rate`.",
    {}, FedAvg, "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
