// A bound on norms, at the server (Sun et al. 2019, arXiv:1911.07963, section 3.2): an update that is longer than
// `bound` counts as if it were just as long, so that none moves the mean by more than bound / K, whatever its client
// does; privacy.clip is what honest clients do themselves. It is centred clipping of one iteration. With a bound that
// nothing exceeds it is federated averaging with uniform weights, to the bit.
#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

Setting Bound() {
  Setting bound = Float("bound", 1, "Largest norm with which an update counts.").Above(0);
  bound.example = "0.5";
  return bound;
}

StatusOr<Composition> NormBound(const AlgorithmContext& context) {
  return FedAvgBy("centered_clipping", {{"tau", context.settings.number("bound")}, {"iterations", 1}}, context);
}

RIVULET_ALGORITHM(
    norm_bound_registration, "norm_bound", "Sun et al. 2019, arXiv:1911.07963, section 3.2",
    "Federated averaging in which no client counts more than an update of norm `bound`: against clients that scale "
    "their updates up. All count the same. The coordinator keeps every update of a round on disk until its end.",
    {Bound()}, NormBound, "w ← w + server.learning_rate · (1 / K) · Σ_k (w_k − w) · min(1, bound / ‖w_k − w‖)");

}  // namespace
}  // namespace rivulet
