// Reptile (Nichol et al. 2018, arXiv:1803.02999, section 3, the batched version): a model from which every client
// learns its own task in a few steps. Tasks are clients, and with w_k the result of k steps from w,
//
//   w ← w + ε · (1 / K) · Σ_k (w_k − w),    ε = server.learning_rate
//
// It is federated averaging with uniform weights, to the bit; an ε below 1 and a cohort of few clients make it
// meta-learning.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

StatusOr<Composition> Reptile(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.aggregation.parts = {
      {.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
  return composition;
}

RIVULET_ALGORITHM(
    reptile_registration, "reptile", "Nichol et al. 2018, arXiv:1803.02999, section 3",
    "Meta-learning: a model from which each client's own task is learned in a few steps. Clients are tasks that all "
    "count the same, and `server.learning_rate` is how far the model moves towards theirs; 0.1 is a good beginning.",
    {}, Reptile, "w ← w + server.learning_rate · (1 / K) · Σ_k (w_k − w)");

}  // namespace
}  // namespace rivulet
