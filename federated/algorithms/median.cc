// Federated averaging with a median (Yin et al. 2018, arXiv:1803.01498, algorithm 1 with option II, in which clients
// take a step instead of sending one gradient): each coordinate moves by the median of the clients' changes. It equals
// `trimmed_mean` with the largest trim, to the bit.
#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

StatusOr<Composition> Median(const AlgorithmContext& context) { return FedAvgBy("median", {}, context); }

RIVULET_ALGORITHM(
    median_registration, "median", "Yin et al. 2018, arXiv:1803.01498, algorithm 1",
    "Federated averaging that no minority of wrong clients can lead astray. Each coordinate moves by the median of "
    "its changes, for an even number by the mean of the middle two. Numbers of examples do not count. The coordinator "
    "keeps every update of a round on disk until its end.",
    {}, Median, "w ← w + server.learning_rate · median_k (w_k − w),  each coordinate for itself");

}  // namespace
}  // namespace rivulet
