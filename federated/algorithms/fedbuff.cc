// FedBuff (Nguyen et al. 2022, arXiv:2106.06639, algorithm 1): asynchronous training. server.in_flight clients train at
// a time, each from the newest model at its start; when one ends, the next is asked. Every K = server.clients_per_round
// updates make a version, from whichever versions they started. An update that is τ versions late has the weight s(τ),
// and the sum is divided by K instead of the weights, so late updates also move the model less:
//
//   w ← w + server.learning_rate · (1 / K) · Σ_k s(τ_k) · (w_k − w^{t − τ_k}),    s(τ) = 1 / (1 + τ)^a
//
// with a = server.staleness_exponent. With server.base = "committed" no update is late, and it is federated averaging
// with uniform weights, to the bit.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedBuff(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  PartSpec delta;
  delta.value_bits = static_cast<int>(context.scenario.server.value_bits);
  delta.weigh = "one";
  delta.denominator.kind = Denominator::Kind::kTasks;
  composition.aggregation.parts = {delta};
  composition.policy.base = TaskPolicy::Base::kLatest;
  return composition;
}

RIVULET_ALGORITHM(
    fedbuff_registration, "fedbuff", "Nguyen et al. 2022, arXiv:2106.06639, algorithm 1",
    "Asynchronous federated averaging with a buffer: `server.in_flight` clients train at a time, each from the newest "
    "model when it was asked, and every `server.clients_per_round` updates make a version. Late updates count less, by "
    "`server.staleness_exponent`, and those later than `server.max_staleness` not at all.",
    {}, FedBuff,
    "w ← w + server.learning_rate · (1 / K) · Σ_k s(τ_k) · (w_k − w^{t − τ_k})\n"
    "s(τ) = 1 / (1 + τ)^server.staleness_exponent,  K = server.clients_per_round");

}  // namespace
}  // namespace rivulet
