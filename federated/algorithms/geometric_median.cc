// RFA (Pillutla et al. 2022, arXiv:1912.13445, algorithms 1 and 2): the model moves to the point with the least
// sum of distances to the clients' models, which a minority cannot pull away. Weiszfeld's algorithm finds it,
// with a lower bound on its divisors. With iterations = 0 it is federated averaging with uniform weights, to the
// bit.
#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

Setting Smoothing() {
  Setting smoothing =
      Float("smoothing", 1e-6, "Least distance that is divided by: within it of the median an update counts no more.")
          .Above(0);
  smoothing.example = "0.01";
  return smoothing;
}

Setting WeiszfeldIterations() {
  Setting iterations = Integer("iterations", 3, "Steps of Weiszfeld's algorithm, from the mean.").Between(0, 1000);
  iterations.example = "10";
  return iterations;
}

StatusOr<Composition> GeometricMedian(const AlgorithmContext& context) {
  return FedAvgBy("geometric_median",
                  {{"smoothing", context.settings.number("smoothing")},
                   {"iterations", static_cast<double>(context.settings.integer("iterations"))}},
                  context);
}

RIVULET_ALGORITHM(
    geometric_median_registration, "geometric_median", "Pillutla et al. 2022, arXiv:1912.13445, algorithms 1 and 2",
    "Federated averaging by the geometric median of the changes (RFA): robust against a minority of wrong clients, and "
    "near the mean where all are honest. All count the same. The coordinator keeps every update of a round on disk "
    "until its end.",
    {Smoothing(), WeiszfeldIterations()}, GeometricMedian,
    "v ← (1 / K) · Σ_k (w_k − w);  then, iterations times:\n"
    "β_k ← 1 / max(smoothing, ‖v − (w_k − w)‖),  v ← Σ_k β_k · (w_k − w) / Σ_k β_k\n"
    "w ← w + server.learning_rate · v");

}  // namespace
}  // namespace rivulet
