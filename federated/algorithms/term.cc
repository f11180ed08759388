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

StatusOr<Composition> Term(const AlgorithmContext& context) {
  const double tilt = context.settings.number("t");
  return FedAvgByLoss(context, {"tilt", {{"t", tilt}}}, "tilted_weight", tilt > 0 ? kTiltBits : 0);
}

RIVULET_ALGORITHM(term_registration, "term", "Li et al. 2021, arXiv:2007.01162, equation 2",
                  "Federated averaging whose clients count by the exponential of their loss. With `t` above 0 the "
                  "model improves for the clients with the highest loss (agnostic federated learning is its limit), "
                  "with `t` below 0 outliers count less. Clients also measure the received model.",
                  {TiltOfLosses()}, Term,
                  "p_k = e^(t · F_k(w)) / Σ_j e^(t · F_j(w))\n"
                  "w ← w + server.learning_rate · Σ_k p_k · (w_k − w)");

}  // namespace
}  // namespace rivulet
