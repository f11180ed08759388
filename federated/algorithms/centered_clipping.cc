// Centred clipping (Karimireddy et al. 2021, arXiv:2012.10333, equation CC): clips an update's difference from the
// center of all updates instead of its length, so that the bound may be as small as the spread of honest clients. The
// paper's center starts from the previous round's result; here it starts from no change. With a tau above all
// differences it is federated averaging with uniform weights, to the bit.
#include "federated/algorithms/robust.h"

namespace rivulet {
namespace {

Setting Tau() {
  Setting tau = Float("tau", 1, "How far from the centre an update counts whole.").Above(0);
  tau.example = "0.1";
  return tau;
}

Setting ClippingIterations() {
  Setting iterations = Integer("iterations", 3, "Steps in which the centre is corrected.").Between(1, 1000);
  iterations.example = "1";
  return iterations;
}

StatusOr<Composition> CenteredClipping(const AlgorithmContext& context) {
  return FedAvgBy("centered_clipping",
                  {{"tau", context.settings.number("tau")},
                   {"iterations", static_cast<double>(context.settings.integer("iterations"))}},
                  context);
}

RIVULET_ALGORITHM(
    centered_clipping_registration, "centered_clipping", "Karimireddy et al. 2021, arXiv:2012.10333, equation CC",
    "Federated averaging in which no client counts further than `tau` from the centre of all: a wrong one moves the "
    "mean by a bounded step. All count the same. The coordinator keeps every update of a round on disk until its end.",
    {Tau(), ClippingIterations()}, CenteredClipping,
    "v ← 0;  then, iterations times:\n"
    "v ← v + (1 / K) · Σ_k (w_k − w − v) · min(1, tau / ‖w_k − w − v‖)\n"
    "w ← w + server.learning_rate · v");

}  // namespace
}  // namespace rivulet
