// APFL (Deng et al. 2020, arXiv:2003.13461, algorithm 1, with a fixed alpha): federated averaging, beside which each
// client k keeps a model of its own, v_k, and is served by a mixture of both (equation 3):
//
//   v̄_k = alpha · v_k + (1 − alpha) · w_k
//
// of which v_k descends: v_k ← v_k − η · ∇_v F_k(v̄_k) = v_k − η · alpha · ∇F_k(v̄_k). Here w_k is trained first, and
// then v_k beside what that came to; the paper takes their steps in turns. As w_k stands still then, v̄_k itself
// descends, by η · alpha² · ∇F_k(v̄_k), and v_k = (v̄_k − (1 − alpha) · w_k) / alpha. A client keeps both v_k and v̄_k,
// which is what it measures as its own; v_k begins as the model of its first task. The shared model is federated
// averaging's, to the bit; with alpha = 1 v_k is trained alone, as Ditto's with lambda = 0 is.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kOwn[] = "state/own", kMixture[] = "state/mixture";

Setting OwnShare() {
  Setting alpha = Float("alpha", 0.5, "How much of a client's mixture is its own model; 1: all.").Between(1e-3, 1);
  alpha.example = "0.25";
  return alpha;
}

StatusOr<Composition> Apfl(const AlgorithmContext& context) {
  const ClientConfig& client = context.scenario.client;
  if (client.optimizer.kind != "sgd" || client.optimizer.weight_decay > 0) {
    return InvalidArgument(
        "[algorithm] name = \"apfl\" descends by a share of a mixture's gradient, and needs client.optimizer.kind = "
        "\"sgd\" without weight_decay");
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = "own", .from_base = true}, {.name = "mixture", .from_base = true}};
  composition.personal = kMixture;
  const double alpha = context.settings.number("alpha");
  composition.passes[0].at_end = [alpha](FlatScope& f) {
    f.Assign(kMixture, f.Add(f.Scale(alpha, f.Read(kOwn)), f.Scale(1 - alpha, f.params())));
  };
  PassBuilder own;
  own.models = {{.buffer = kMixture}};
  own.trains = kMixture;
  own.reports = "personal_loss";
  own.gradient = [alpha](FlatScope& f) { return f.Scale(alpha * alpha, f.grads()); };
  own.at_end = [alpha](FlatScope& f) {
    f.Assign(kOwn, f.Scale(1 / alpha, f.Sub(f.Read(kMixture), f.Scale(1 - alpha, f.params()))));
  };
  composition.passes.push_back(std::move(own));
  return composition;
}

RIVULET_ALGORITHM(apfl_registration, "apfl", "Deng et al. 2020, arXiv:2003.13461, algorithm 1",
                  "Federated averaging, beside which each client keeps a model of its own and is served by a mixture "
                  "of both, `alpha` of "
                  "it its own. The shared model is federated averaging's. Needs `client.optimizer.kind` \"sgd\".",
                  {OwnShare()}, Apfl,
                  "v̄_k = alpha · v_k + (1 − alpha) · w_k\n"
                  "v_k ← v_k − client.optimizer.learning_rate · alpha · ∇F_k(v̄_k)\n"
                  "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
