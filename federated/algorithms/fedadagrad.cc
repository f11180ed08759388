// FedAdagrad (Reddi et al. 2021, arXiv:2003.00295, algorithm 2): the server takes an Adagrad step with the mean of the
// changes, so that a parameter's steps become shorter the more it has moved:
//
//   m ← beta1·m + (1 − beta1)·d,  v ← v + d²,  w ← w + server.learning_rate · m / (√v + tau)
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/adaptive.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedAdagrad(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.server_optimizer = {"adagrad", context.settings.values()};
  return composition;
}

RIVULET_ALGORITHM(fedadagrad_registration, "fedadagrad", "Reddi et al. 2021, arXiv:2003.00295, algorithm 2",
                  "Federated averaging whose server takes a step of Adagrad with the mean of the changes. Each "
                  "parameter's steps become the shorter, the more it has moved; for data of rare features. "
                  "`server.learning_rate` is Adagrad's; 0.1 is a good beginning.",
                  ServerAdagradSettings(), FedAdagrad,
                  "d ← Σ_k (n_k / n) · (w_k − w)\n"
                  "m ← beta1 · m + (1 − beta1) · d\n"
                  "v ← v + d²\n"
                  "w ← w + server.learning_rate · m / (√v + tau)");

}  // namespace
}  // namespace rivulet
