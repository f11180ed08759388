// FedYogi (Reddi et al. 2021, arXiv:2003.00295, algorithm 2): FedAdam with a mean of squares that changes by at most
// the new square, so that a round of small changes does not quickly lengthen later steps:
//
//   m ← beta1·m + (1 − beta1)·d,  v ← v − (1 − beta2)·d²·sign(v − d²),  w ← w + server.learning_rate · m / (√v + tau)
//
// With beta1 = 0, beta2 = 1, tau = 1, initial_accumulator = 0 it is federated averaging, to the bit.
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/adaptive.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedYogi(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.server_optimizer = {"yogi", context.settings.values()};
  return composition;
}

RIVULET_ALGORITHM(fedyogi_registration, "fedyogi", "Reddi et al. 2021, arXiv:2003.00295, algorithm 2",
                  "Federated averaging whose server takes a step of Yogi with the mean of the changes: as `fedadam`, "
                  "but the pace of a parameter never rises quickly. `server.learning_rate` is Yogi's; 0.01 is a good "
                  "beginning.",
                  ServerAdamSettings(), FedYogi,
                  "d ← Σ_k (n_k / n) · (w_k − w)\n"
                  "m ← beta1 · m + (1 − beta1) · d\n"
                  "v ← v − (1 − beta2) · d² · sign(v − d²)\n"
                  "w ← w + server.learning_rate · m / (√v + tau)");

}  // namespace
}  // namespace rivulet
