// Federated averaging with a robust mean (Yin et al. 2018, arXiv:1803.01498, algorithm 1 with option II, in which
// clients take a step instead of sending one gradient): faulty or malicious updates of a minority move a coordinate no
// further than the honest clients' values.
#include "federated/aggregation/trimmed_mean.h"

#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

StatusOr<Composition> TrimmedMean(const AlgorithmContext& context) {
  return FedAvgBy("trimmed_mean", {{"trim", context.settings.number("trim")}}, context);
}

RIVULET_ALGORITHM(
    trimmed_mean_registration, "trimmed_mean", "Yin et al. 2018, arXiv:1803.01498, algorithm 1",
    "Federated averaging that a minority of wrong clients cannot lead astray: of each coordinate's changes the "
    "largest and the smallest `trim` are left out, and the others averaged. Numbers of examples do not count. The "
    "coordinator keeps every update of a round on disk until its end.",
    TrimmedMeanSettings(), TrimmedMean,
    "c ← floor(trim · K);  of x_1 ≤ x_2 ≤ … ≤ x_K, each coordinate of the K changes w_k − w sorted for itself:\n"
    "w ← w + server.learning_rate · (x_{c+1} + … + x_{K−c}) / (K − 2c)");

}  // namespace
}  // namespace rivulet
