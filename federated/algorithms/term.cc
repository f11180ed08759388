// Tilted empirical risk minimisation over clients (Li et al. 2021, arXiv:2007.01162, equation 2). The server minimises
//
//   R̃(t; w) = (1 / t) · log((1 / K) · Σ_k e^(t·F_k(w))),    whose gradient is  Σ_k e^(t·F_k) ∇F_k / Σ_k e^(t·F_k)
//
// with F_k the loss of client k. It uses the clients' changes Δ_k = w_k − w instead of gradients (lemma 1):
//
//   w ← w + server.learning_rate · Σ_k e^(t·F_k(w)) Δ_k / Σ_k e^(t·F_k(w))
//
// t > 0 favours clients with high losses, in the limit the worst alone; t < 0 favours the majority over outliers. These
// are the weights that exponentiated gradient ascent on a mixture of clients (Mohri et al. 2019, arXiv:1902.00146)
// gives after one step of length t from uniform weights. Cohorts are sampled anew in each round, and no server stores a
// weight per client. The values contain the weights (federated/mechanisms/tilt.cc). t = 0 is federated averaging with
// uniform weights, to the bit.
//
// Weights are e^(t · (F_k − R)) with one R for all clients of a version, which cancels out (the shift of log-sum-exp).
// The largest loss of a round is known only at its end. So R is the largest training loss of the previous round (the
// smallest for t < 0), and `reference` in the first (federated/numbers/loss_reference.cc). A weight that the sums
// cannot hold is refused. If tasks start from several versions, R is always `reference`.
#include "federated/algorithms/weighs_by_loss.h"

namespace rivulet {
namespace {

// Bits of a sum for weights above 1: they are limited to e^10, which is below 2^15.
constexpr int kTiltBits = 15;

Setting TiltOfLosses() {
  Setting tilt = Float("t", 1, "How much more a client of a higher loss counts; below 0: how much less; 0: not at all.")
                     .Between(-100, 100);
  tilt.example = "-2";
  return tilt;
}

Setting ReferenceOfTilt() {
  Setting reference = Float("reference", 0,
                            "Loss at which a client weighs 1 in the first round; it changes no result. Set it near the "
                            "clients' first losses where `t` times these is beyond 10. Later rounds take it from the "
                            "losses of the round before.")
                          .Between(-1e30, 1e30);
  reference.example = "150";
  return reference;
}

StatusOr<Composition> Term(const AlgorithmContext& context) {
  const double tilt = context.settings.number("t");
  const PieceSpec mechanism = {"tilt", {{"t", tilt}}};
  if (tilt == 0) return FedAvgByLoss(context, mechanism, "tilted_weight", std::nullopt);
  return FedAvgByLoss(context, mechanism, "tilted_weight", /*by_largest=*/tilt > 0, kTiltBits);
}

RIVULET_ALGORITHM(term_registration, "term", "Li et al. 2021, arXiv:2007.01162, equation 2",
                  "Federated averaging whose clients count by the exponential of their loss. With `t` above 0 the "
                  "model improves for the clients with the highest loss (agnostic federated learning is its limit), "
                  "with `t` below 0 outliers count less. Clients also measure the received model.",
                  {TiltOfLosses(), ReferenceOfTilt()}, Term,
                  "p_k = e^(t · F_k(w)) / Σ_j e^(t · F_j(w))\n"
                  "w ← w + server.learning_rate · Σ_k p_k · (w_k − w)");

}  // namespace
}  // namespace rivulet
