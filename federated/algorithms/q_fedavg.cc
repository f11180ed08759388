// q-FedAvg (Li et al. 2020, arXiv:1905.10497, algorithm 2): clients weigh more the higher their loss is, so that the
// model serves all clients rather than their mean. With F_k = F_k(w) the loss of the received model on a client, Δ_k =
// w_k − w its change, and L = 1 / client.optimizer.learning_rate, as the paper sets it,
//
//   w ← w + server.learning_rate · Σ_k F_k^q Δ_k / Σ_k (F_k^q + q L F_k^(q − 1) ‖Δ_k‖²)
//
// which is the paper's step with both sums divided by L. Weights of very different magnitudes do not fit integers: the
// values contain them (federated/mechanisms/fair.cc), and clients declare the terms of the divisor. Sums have an
// absolute resolution and a bound (server.value_bits), so losses are divided by one R for all clients of a version,
// which cancels out. R is the largest training loss of the previous round, and `reference` in the first
// (federated/numbers/loss_reference.cc). If tasks start from several versions, R is always `reference`. q = 0 is
// federated averaging with uniform weights, to the bit.
#include "federated/algorithms/weighs_by_loss.h"

namespace rivulet {
namespace {

Setting Fairness() {
  Setting q = Float("q", 1, "How much more a client of a higher loss counts; 0: not at all.").Between(0, 10);
  q.example = "0.1";
  return q;
}

Setting ReferenceOfFairness() {
  Setting reference = Float("reference", 1,
                            "Loss at which a client weighs 1 in the first round; it changes no result. Set it near the "
                            "clients' first losses where their power `q` is large or tiny. Later rounds take it from "
                            "the losses of the round before.")
                          .Between(1e-10, 1e30);
  reference.example = "150";
  return reference;
}

StatusOr<Composition> QFedAvg(const AlgorithmContext& context) {
  const double rate = context.scenario.client.optimizer.learning_rate;
  const double q = context.settings.number("q");
  return FedAvgByLoss(context, {"fair", {{"q", q}, {"learning_rate", rate}}}, "fair_weight",
                      q == 0 ? std::nullopt : std::optional(/*by_largest=*/true));
}

RIVULET_ALGORITHM(
    q_fedavg_registration, "q_fedavg", "Li et al. 2020, arXiv:1905.10497, algorithm 2",
    "Federated averaging that is fairer to clients: those with a higher loss count more, by a power of it. Clients "
    "also measure the received model.",
    {Fairness(), ReferenceOfFairness()}, QFedAvg,
    "L = 1 / client.optimizer.learning_rate\n"
    "h_k = F_k(w)^q + q · L · F_k(w)^(q − 1) · ‖w_k − w‖²\n"
    "w ← w + server.learning_rate · Σ_k F_k(w)^q · (w_k − w) / Σ_k h_k");

}  // namespace
}  // namespace rivulet
