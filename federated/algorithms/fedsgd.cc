// FedSGD (McMahan et al. 2017, arXiv:1602.05629, section 2): federated averaging with E = 1 and B = ∞. Each client
// takes one step with the gradient of all its examples, so the mean of the models is a step with the overall gradient:
//
//   w ← w − server.learning_rate · client.optimizer.learning_rate · Σ_k (n_k / n) · ∇F_k(w)
//
// It is federated averaging of one epoch in one batch, to the bit.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedSgd(const AlgorithmContext& context) {
  if (!context.scenario.client.input_graph.empty()) {
    return InvalidArgument(
        "[algorithm] name = \"fedsgd\" takes all of a client's examples in one batch, but client.input_graph makes "
        "other batches; leave that out, or use \"fedavg\"");
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  for (PassBuilder& pass : composition.passes) {
    pass.epochs = 1;
    pass.batch_size = kWholeBatch;
  }
  return composition;
}

RIVULET_ALGORITHM(fedsgd_registration, "fedsgd", "McMahan et al. 2017, arXiv:1602.05629, section 2",
                  "One step of gradient descent a round: each client's gradient is that of all its examples, for any "
                  "`client.epochs` and `client.batch_size`. The baseline of federated averaging.",
                  {}, FedSgd,
                  "w ← w − server.learning_rate · client.optimizer.learning_rate · Σ_k (n_k / n) · ∇F_k(w)");

}  // namespace
}  // namespace rivulet
