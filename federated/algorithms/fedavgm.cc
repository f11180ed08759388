// FedAvgM (Hsu et al. 2019, arXiv:1909.06335, section 4): federated averaging whose server keeps a momentum.
//
//   m ← beta·m + Σ_k (n_k / n) · (w_k − w),  w ← w + server.learning_rate · m
//
// With beta = 0 it is federated averaging, to the bit.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting Beta() {
  Setting beta = Float("beta", 0.9, "Share of a round's step that is added to the next round's.").Between(0, 1);
  beta.example = "0.5";
  return beta;
}

StatusOr<Composition> FedAvgM(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.server_optimizer = {"momentum", context.settings.values()};
  return composition;
}

RIVULET_ALGORITHM(fedavgm_registration, "fedavgm", "Hsu et al. 2019, arXiv:1909.06335, section 4",
                  "Federated averaging whose server moves on in the direction of the rounds before.", {Beta()}, FedAvgM,
                  "m ← beta · m + Σ_k (n_k / n) · (w_k − w)\n"
                  "w ← w + server.learning_rate · m");

}  // namespace
}  // namespace rivulet
