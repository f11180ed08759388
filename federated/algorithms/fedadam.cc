// FedAdam (Reddi et al. 2021, arXiv:2003.00295, algorithm 2): clients train as in federated averaging, and the server
// takes an Adam step with the mean of their changes. Its moments are kept from round to round:
//
//   m ← beta1·m + (1 − beta1)·d,  v ← beta2·v + (1 − beta2)·d²,  w ← w + server.learning_rate · m / (√v + tau)
//
// With beta1 = 0, beta2 = 1, tau = 1, initial_accumulator = 0 it is federated averaging, to the bit.
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/adaptive.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedAdam(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.server_optimizer = {"adam", context.settings.values()};
  return composition;
}

RIVULET_ALGORITHM(fedadam_registration, "fedadam", "Reddi et al. 2021, arXiv:2003.00295, algorithm 2",
                  "Federated averaging whose server takes a step of Adam with the mean of the changes, so each "
                  "parameter has its own step size. `server.learning_rate` is Adam's; 0.01 is a good beginning.",
                  ServerAdamSettings(), FedAdam,
                  "d ← Σ_k (n_k / n) · (w_k − w)\n"
                  "m ← beta1 · m + (1 − beta1) · d\n"
                  "v ← beta2 · v + (1 − beta2) · d²\n"
                  "w ← w + server.learning_rate · m / (√v + tau)");

}  // namespace
}  // namespace rivulet
