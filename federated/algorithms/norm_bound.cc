// Norm bounding at the server (Sun et al. 2019, arXiv:1911.07963, section 3.2): an update with a norm above `bound` is
// scaled down to it, so that no client moves the mean by more than bound / K. In contrast, privacy.clip is applied by
// honest clients themselves. It is centred clipping with one iteration. With a bound above all norms it is federated
// averaging with uniform weights, to the bit.
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
