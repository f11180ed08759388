// Krum and Multi-Krum (Blanchard et al. 2017, arXiv:1703.02757, section 4): updates of honest clients are close to
// each other. Of K updates, f may be malicious. Krum takes the one closest to its K − f − 2 nearest others, and
// Multi-Krum averages the K − f best. With byzantine = 0 Multi-Krum is federated averaging with uniform weights, to
// the bit.
#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

Setting Byzantine() {
  Setting byzantine =
      Float("byzantine", 0.2, "Of the updates, how many may be wrong, rounded down.").AtLeast(0).Below(0.5);
  byzantine.example = "0.3";
  return byzantine;
}

StatusOr<Composition> Krum(const AlgorithmContext& context) {
  return FedAvgBy("krum", {{"byzantine", context.settings.number("byzantine")}}, context);
}

StatusOr<Composition> MultiKrum(const AlgorithmContext& context) {
  return FedAvgBy("multi_krum", {{"byzantine", context.settings.number("byzantine")}}, context);
}

RIVULET_ALGORITHM(
    krum_registration, "krum", "Blanchard et al. 2017, arXiv:1703.02757, section 4",
    "Federated averaging that takes one client's change for all: the one that is nearest to the others. Robust where "
    "clients' data are alike. The coordinator keeps every update of a round on disk until its end.",
    {Byzantine()}, Krum,
    "f = floor(byzantine · K),  s(k) = Σ over the K − f − 2 nearest others j of ‖w_k − w_j‖²\n"
    "w ← w + server.learning_rate · (w_k − w)  of the k with the least s(k)");

RIVULET_ALGORITHM(
    multi_krum_registration, "multi_krum", "Blanchard et al. 2017, arXiv:1703.02757, section 4",
    "Federated averaging over the clients whose changes are nearest to the others': `krum` with the mean of all but "
    "the worst. The coordinator keeps every update of a round on disk until its end.",
    {Byzantine()}, MultiKrum,
    "f = floor(byzantine · K),  s(k) = Σ over the K − f − 2 nearest others j of ‖w_k − w_j‖²\n"
    "w ← w + server.learning_rate · (1 / (K − f)) · Σ (w_k − w)  over the K − f of the least s(k)");

}  // namespace
}  // namespace rivulet
