// MimeLite and Mime (Karimireddy et al. 2021, arXiv:2008.03606, algorithm 1, with SGD and momentum): clients' steps
// include the server's momentum, which they receive and keep constant, so that local steps follow the global direction:
//
//   y ← y − η · ((1 − beta) · g + beta · m),  from y = w
//
// MimeLite takes g = ∇F_k(y; batch), and Mime g = ∇F_k(y; batch) − ∇F_k(w; batch) + c, which removes the influence of a
// client's own data from its steps. Before that, each client computes the gradient of all its examples at w, ∇F_k(w);
// from the mean ḡ the server computes m ← (1 − beta) · ḡ + beta · m (federated/server_optimizers/mimelite.cc).
//
// The paper's c is the ḡ of the round's own clients, who would have to wait for it within the round. Here it is that
// of the previous version, one round late; the first round has none and is MimeLite's. With beta = 0 MimeLite is
// federated averaging with uniform weights: to the bit if nothing is shuffled, because the gradient pass also draws an
// order.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kServerMomentum[] = "broadcast/m", kMeanGradient[] = "broadcast/c", kWholeGradient[] = "update/gradient";

Setting MomentumBeta() {
  Setting beta = Float("beta", 0.9, "Of the momentum, how much stays in a round; 0: nothing.").Between(0, 1);
  beta.example = "0.5";
  return beta;
}

// The batch's gradient, with Mime's correction from the second round on.
Output Corrected(FlatScope& f) {
  const Output round = f.Read("round");
  const Output known = f.scope().Op("Minimum", {round, f.scope().Op("OnesLike", {round})});
  return f.Add(f.grads(), f.Scale(known, f.Sub(f.Read(kMeanGradient), f.Read("other_grads"))));
}

StatusOr<Composition> MimeOrLite(const AlgorithmContext& context, bool whole) {
  const ClientConfig& client = context.scenario.client;
  if (client.optimizer.kind != "sgd" || client.optimizer.weight_decay() > 0 || !client.input_graph.empty()) {
    return InvalidArgument(
        "[algorithm] name = \"{}\" has its own momentum and first batch: it needs client.optimizer.kind = \"sgd\" "
        "without weight_decay, and no client.input_graph",
        context.scenario.algorithm.name);
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.broadcast = {"m"};
  if (whole) composition.broadcast.emplace_back("c");
  const double beta = context.settings.number("beta");
  for (PassBuilder& pass : composition.passes) {
    if (whole) {
      pass.models = {{}, {.prefix = "given", .buffer = "base_params"}};
      pass.also_by = "base_params";
    }
    pass.gradient = [beta, whole](FlatScope& f) {
      return f.Add(f.Scale(1 - beta, whole ? Corrected(f) : f.grads()), f.Scale(beta, f.Read(kServerMomentum)));
    };
  }
  // A pass that stores its gradient and does not change the model.
  PassBuilder look;
  look.epochs = 1;
  look.batch_size = kWholeBatch;
  look.reports = "initial_loss";
  look.gradient = [](FlatScope& f) {
    f.Assign(kWholeGradient, f.grads());
    return f.Scale(0, f.grads());
  };
  composition.passes.insert(composition.passes.begin(), std::move(look));
  composition.parts["gradient"] = {.from = kWholeGradient, .less = "", .shared_too = false};
  const auto value_bits = static_cast<int>(context.scenario.server.value_bits);
  composition.aggregation.parts = {{.value_bits = value_bits, .weigh = "one"},
                                   {.name = "gradient", .value_bits = value_bits, .weigh = "one"}};
  composition.server_optimizer = {"mimelite", {{"beta", beta}, {"keeps_mean", whole}}};
  return composition;
}

StatusOr<Composition> MimeLite(const AlgorithmContext& context) { return MimeOrLite(context, false); }
StatusOr<Composition> Mime(const AlgorithmContext& context) { return MimeOrLite(context, true); }

RIVULET_ALGORITHM(
    mimelite_registration, "mimelite", "Karimireddy et al. 2021, arXiv:2008.03606, algorithm 1",
    "Federated averaging whose clients' steps have the server's momentum in them, against drift where data differ. "
    "Each also sends the gradient of all its examples, from which the momentum is made. All count the same. Needs "
    "`client.optimizer.kind` \"sgd\".",
    {MomentumBeta()}, MimeLite,
    "y ← y − client.optimizer.learning_rate · ((1 − beta) · g_k(y) + beta · m),  from y = w\n"
    "w ← w + server.learning_rate · (1 / K) · Σ_k (y_k − w)\n"
    "m ← (1 − beta) · (1 / K) · Σ_k ∇F_k(w) + beta · m");

RIVULET_ALGORITHM(
    mime_registration, "mime", "Karimireddy et al. 2021, arXiv:2008.03606, algorithm 1",
    "MimeLite whose clients also correct each step: they subtract their own gradient at the received model and add "
    "the mean gradient of the round before. This takes two gradients a step. All count the same. Needs "
    "`client.optimizer.kind` \"sgd\".",
    {MomentumBeta()}, Mime,
    "y ← y − client.optimizer.learning_rate · ((1 − beta) · (g_k(y) − g_k(w) + c) + beta · m),  from y = w\n"
    "w ← w + server.learning_rate · (1 / K) · Σ_k (y_k − w)\n"
    "c ← (1 / K) · Σ_k ∇F_k(w),  m ← (1 − beta) · c + beta · m");

}  // namespace
}  // namespace rivulet
