// APFL (Deng et al. 2020, arXiv:2003.13461, algorithm 1): federated averaging in which each client k also keeps a
// personal model v_k and uses a mixture of both (equation 3):
//
//   v̄_k = alpha · v_k + (1 − alpha) · w_k
//
// Gradient steps change v_k: v_k ← v_k − η · ∇_v F_k(v̄_k) = v_k − η · alpha · ∇F_k(v̄_k). Here w_k is trained first
// and v_k afterwards, beside the final w_k; the paper alternates their steps. With w_k constant, v̄_k itself descends
// by η · alpha² · ∇F_k(v̄_k), and v_k = (v̄_k − (1 − alpha) · w_k) / alpha. A client keeps both v_k and v̄_k, and
// measures v̄_k as its own model; v_k starts as the model of its first task. The shared model is federated averaging's
// to the bit; with alpha = 1, v_k is trained alone, as in Ditto with lambda = 0.
//
// With alpha_learning_rate a client also learns its alpha (equation 10), once per task, from all its examples:
//
//   alpha_k ← alpha_k − alpha_learning_rate · ⟨∇F_k(v̄_k), v_k − w_k⟩,  kept from kLeastShare to 1
//
// and then mixes again. Client state has one shape, the model's, so alpha_k is stored in it as a constant vector.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kOwn[] = "state/own", kMixture[] = "state/mixture";
constexpr char kLearnt[] = "state/learnt";  // alpha_k minus alpha
constexpr double kLeastShare = 1e-3;        // v_k is divided by alpha_k

Setting OwnShare() {
  Setting alpha =
      Float("alpha", 0.5, "How much of a client's mixture is its own model; 1: all.").Between(kLeastShare, 1);
  alpha.example = "0.25";
  return alpha;
}

Setting ShareRate() {
  Setting rate = Float("alpha_learning_rate", 0,
                       "Step by which each client learns its own share, from `alpha` on; 0: it does not.")
                     .Between(0, 1e3);
  rate.example = "0.1";
  return rate;
}

Output FloatOf(FlatScope& f, double value) { return f.scope().Const(static_cast<float>(value)); }
Output Product(FlatScope& f, Output a, Output b) { return f.scope().Op("Mul", {a, b}); }

// The vector of learnt shares, and the mixture with these shares.
Output LearntShare(FlatScope& f, double alpha) { return f.Add(f.Read(kLearnt), FloatOf(f, alpha)); }
Output MixedBy(FlatScope& f, Output share) {
  return f.Add(f.params(), Product(f, share, f.Sub(f.Read(kOwn), f.params())));
}

// Replaces fixed shares by each client's own share in the passes, and adds a pass over all examples that learns the
// share.
void LearnShares(double alpha, double rate, Composition& composition) {
  composition.state.push_back({.name = "learnt"});
  composition.passes[0].at_end = [alpha](FlatScope& f) { f.Assign(kMixture, MixedBy(f, LearntShare(f, alpha))); };
  PassBuilder& own = composition.passes[1];
  own.gradient = [alpha](FlatScope& f) {
    const Output share = LearntShare(f, alpha);
    return Product(f, Product(f, share, share), f.grads());
  };
  own.at_end = [alpha](FlatScope& f) {
    const Output moved = f.Sub(f.Read(kMixture), f.params());
    f.Assign(kOwn, f.Add(f.params(), f.scope().Op("RealDiv", {moved, LearntShare(f, alpha)})));
  };
  PassBuilder learn;
  learn.models = {{.buffer = kMixture}};
  learn.trains = kMixture;
  learn.epochs = 1;
  learn.batch_size = kWholeBatch;
  learn.reports = "mixture_loss";
  learn.gradient = [alpha, rate](FlatScope& f) {
    const Scope& scope = f.scope();
    const Output along = Product(f, f.grads(), f.Sub(f.Read(kOwn), f.params()));
    const Output slope = scope.Op("Sum", {along, scope.Const(Tensor::Scalar<int32_t>(0), "axis")});
    const Output learnt = f.Sub(LearntShare(f, alpha), f.Scale(rate, slope));
    const Output share = scope.Op("Minimum", {scope.Op("Maximum", {learnt, FloatOf(f, kLeastShare)}), FloatOf(f, 1)});
    f.Assign(kLearnt, f.Sub(share, FloatOf(f, alpha)));
    return f.Scale(0, f.grads());
  };
  learn.at_end = [alpha](FlatScope& f) { f.Assign(kMixture, MixedBy(f, LearntShare(f, alpha))); };
  composition.passes.push_back(std::move(learn));
}

StatusOr<Composition> Apfl(const AlgorithmContext& context) {
  const ClientConfig& client = context.scenario.client;
  if (client.optimizer.kind != "sgd" || client.optimizer.weight_decay() > 0) {
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
  if (const double rate = context.settings.number("alpha_learning_rate"); rate > 0) {
    LearnShares(alpha, rate, composition);
  }
  return composition;
}

RIVULET_ALGORITHM(apfl_registration, "apfl", "Deng et al. 2020, arXiv:2003.13461, algorithm 1",
                  "Federated averaging, beside which each client keeps a personal model. A client is served by a "
                  "mixture of both, `alpha` of it the personal one. The shared model equals federated averaging's. "
                  "Needs `client.optimizer.kind` \"sgd\".",
                  {OwnShare(), ShareRate()}, Apfl,
                  "v̄_k = alpha · v_k + (1 − alpha) · w_k\n"
                  "v_k ← v_k − client.optimizer.learning_rate · alpha · ∇F_k(v̄_k)\n"
                  "alpha_k ← alpha_k − alpha_learning_rate · ⟨∇F_k(v̄_k), v_k − w_k⟩\n"
                  "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
