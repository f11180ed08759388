// FedAsync (Xie et al. 2019, arXiv:1903.03934, algorithm 1): the server waits for no client and mixes each update into
// the model at once. A client that started from w^τ minimises (line "local update" of the paper)
//
//   g(x; w^τ) = F_k(x) + (rho / 2) · ‖x − w^τ‖²
//
// and sends the resulting model x. By its staleness t − τ, the server computes
//
//   w ← (1 − α_t) · w + α_t · x,    α_t = α · s(t − τ),    s(τ) = 1 / (1 + τ)^a
//
// with α = server.learning_rate and a = server.staleness_exponent: the paper's polynomial, and for a = 0 its constant.
// The paper's server takes updates one by one: server.clients_per_round = 1. With several updates per version, it
// mixes in their staleness-weighted mean, by the mean of their weights. Clients send models, not changes: unlike in
// FedBuff, a late update pulls the model back to the client's starting point. So updates must not be sparsified or
// clipped.
//
// With server.base = "committed" no update is late, and with rho = 0 it is federated averaging with uniform weights: to
// the bit if sums do not round the model's values (server.value_bits).
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

Setting ProximalRho() {
  Setting rho = Float("rho", 0.005, "Weight of the term that holds a client to the model that it was given; 0: none.")
                    .Between(0, 1e6);
  rho.example = "0.1";
  return rho;
}

StatusOr<Composition> FedAsync(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  if (scenario.server.learning_rate > 1) {
    return InvalidArgument(
        "[algorithm] name = \"fedasync\" mixes a client's model into the server's by server.learning_rate, which is {} "
        "and must be at most 1",
        scenario.server.learning_rate);
  }
  if (scenario.privacy.clip > 0) {
    return InvalidArgument(
        "[algorithm] name = \"fedasync\" sends models and not differences, of which privacy.clip would leave little; "
        "set it to 0, or use \"fedbuff\"");
  }
  for (const char* codec : {"top_k", "random_k", "sign"}) {
    if (scenario.update.codec != codec) continue;
    return InvalidArgument(
        "[algorithm] name = \"fedasync\" sends models and not differences, of which update.codec = \"{}\" would leave "
        "little; use another codec, or \"fedbuff\"",
        codec);
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  const double rho = context.settings.number("rho");
  if (rho > 0) {
    composition.passes[0].gradient = [rho](FlatScope& f) {
      return f.Add(f.grads(), f.Scale(rho, f.Sub(f.params(), f.base_params())));
    };
  }
  composition.parts["delta"].less = "";
  composition.aggregation.parts = {{.value_bits = static_cast<int>(scenario.server.value_bits), .weigh = "one"}};
  composition.server_optimizer = {"mixing"};
  composition.policy.base = TaskPolicy::Base::kLatest;
  return composition;
}

RIVULET_ALGORITHM(
    fedasync_registration, "fedasync", "Xie et al. 2019, arXiv:1903.03934, algorithm 1",
    "Asynchronous federated averaging without a buffer: `server.in_flight` clients train at a time. A client's model "
    "is mixed into the server's by `server.learning_rate`, the less the later it is (`server.staleness_exponent`). "
    "The paper's server waits for no second one: `server.clients_per_round` = 1.",
    {ProximalRho()}, FedAsync,
    "∇g(x; w^τ) = ∇F_k(x) + rho · (x − w^τ)\n"
    "w ← (1 − α_t) · w + α_t · x,  α_t = server.learning_rate · s(t − τ)\n"
    "s(τ) = 1 / (1 + τ)^server.staleness_exponent");

}  // namespace
}  // namespace rivulet
