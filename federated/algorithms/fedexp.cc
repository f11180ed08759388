// FedExP (Jhunjhunwala et al. 2023, arXiv:2301.09604, algorithm 1): extrapolates the server's step according to how
// much the clients' changes disagree, a technique that accelerates projections onto many convex sets:
//
//   w ← w + server.learning_rate · max(1, Σ_k p_k ‖Δ_k‖² / (2 (‖d‖² + epsilon))) · d,    d = Σ_k p_k Δ_k
//
// In the paper p_k is uniform (server.weights). With a very large epsilon it is federated averaging, to the bit.
#include "federated/aggregation/measured_scalar.h"
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting Epsilon() {
  Setting epsilon =
      Float("epsilon", 1e-3, "Added to the square of the mean's norm; larger: the step is stretched less.").Above(0);
  epsilon.example = "0.1";
  return epsilon;
}

StatusOr<Composition> FedExp(const AlgorithmContext& context) {
  const ServerConfig& server = context.scenario.server;
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  const std::string weigh = server.weights == "uniform" ? "one" : "examples";
  composition.aggregation.scalars = {{kSquaredNorm, weigh}};
  composition.server_optimizer = {"extrapolation", context.settings.values()};
  return composition;
}

RIVULET_ALGORITHM(
    fedexp_registration, "fedexp", "Jhunjhunwala et al. 2023, arXiv:2301.09604, algorithm 1",
    "Federated averaging whose server goes further in the direction of the mean, the more the clients' changes differ: "
    "a server learning rate that sets itself.",
    {Epsilon()}, FedExp,
    "d = Σ_k (n_k / n) · (w_k − w),  s = Σ_k (n_k / n) · ‖w_k − w‖²\n"
    "w ← w + server.learning_rate · max(1, s / (2 · (‖d‖² + epsilon))) · d");

}  // namespace
}  // namespace rivulet
