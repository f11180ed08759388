// Tilted empirical risk minimisation over clients (Li et al. 2021, arXiv:2007.01162, equation 2): the server minimises
//
//   R̃(t; w) = (1 / t) · log((1 / K) · Σ_k e^(t·F_k(w))),    whose gradient is  Σ_k e^(t·F_k) ∇F_k / Σ_k e^(t·F_k)
//
// with F_k the loss of client k, by what clients changed, Δ_k = w_k − w, in the place of gradients (lemma 1):
//
//   w ← w + server.learning_rate · Σ_k e^(t·F_k(w)) Δ_k / Σ_k e^(t·F_k(w))
//
// t > 0 is for those for whom the model is bad, towards the worst of them alone; t < 0 for the many against outliers.
// These are the weights that exponentiated gradient ascent on a mixture of clients (Mohri et al. 2019,
// arXiv:1902.00146) gives after one step of length t from even ones: cohorts are drawn anew in each round, and no
// server keeps a weight of each client. The values carry the weights (federated/mechanisms/tilt.cc). t = 0 is federated
// averaging with uniform weights, to the bit.
//
// Weights are e^(t · (F_k − R)) with one R for all clients of a version, which the division takes out again: the
// log-sum- exp's shift. The largest loss of a round is known once it is over, so R is the largest training loss of the
// round before (the smallest where t < 0), and `reference` in the first (federated/numbers/loss_reference.cc). A weight
// that the sums cannot hold is refused. Where tasks start from several versions, R is `reference` throughout.
#include "federated/algorithms/weighs_by_loss.h"

namespace rivulet {
namespace {

// What a weight above 1 needs of a sum's bits: e^10, which bounds it, is below 2^15.
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
