// FedRep (Collins et al. 2021, arXiv:2102.07078, algorithm 1): a shared representation φ, and for each client a
// personal head h_k (model.personal) that never leaves it. A client first trains its head with the received
// representation, and then the representation for that head:
//
//   h_k ← h_k − η ∇_h F_k(φ, h_k),  head_epochs times over its data
//   φ_k ← φ_k − η ∇_φ F_k(φ_k, h_k),  client.epochs times
//
// and the server averages the resulting φ_k.
#include "federated/algorithms/personal.h"

namespace rivulet {
namespace {

Setting HeadEpochs() {
  Setting epochs =
      Integer("head_epochs", 10, "Passes over its data with which a client learns its own layers, before the others.")
          .Between(1, 1e6);
  epochs.example = "5";
  return epochs;
}

// The gradient of the shared variables, which are first in flat vectors, or of the client's own; zeros elsewhere. No
// optimiser changes elements whose gradients have always been zero.
LocalGradient GradientOf(bool own, const ModelLayout& layout) {
  const auto shared = static_cast<int32_t>(layout.segment_offset(Segment::kLocal) / sizeof(float));
  return [own, shared](FlatScope& f) {
    const Scope& scope = f.scope();
    const auto number = [&](int32_t n) { return scope.Const(Tensor::Of<int32_t>({1}, {n})); };
    Output first = scope.Op("Slice", {f.grads(), number(0), number(shared)});
    Output rest = scope.Op("Slice", {f.grads(), number(shared), number(-1)});
    Output& zero = own ? first : rest;
    zero = scope.Op("ZerosLike", {zero});
    return scope.Op("ConcatV2", {first, rest, scope.Const(Tensor::Of<int32_t>({}, {0}))});
  };
}

StatusOr<Composition> FedRep(const AlgorithmContext& context) {
  RIVULET_RETURN_IF_ERROR(CheckPersonalLayers(context));
  if (context.scenario.client.optimizer.weight_decay() > 0) {
    return InvalidArgument(
        "[algorithm] name = \"fedrep\" holds layers still while it trains the others, and "
        "client.optimizer.weight_decay would move them; set it to 0");
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  PassBuilder head;
  head.epochs = context.settings.integer("head_epochs");
  head.reports = "head_loss";
  head.gradient = GradientOf(true, context.layout);
  composition.passes[0].gradient = GradientOf(false, context.layout);
  composition.passes.insert(composition.passes.begin(), std::move(head));
  return composition;
}

RIVULET_ALGORITHM(
    fedrep_registration, "fedrep", "Collins et al. 2021, arXiv:2102.07078, algorithm 1",
    "Federated averaging of a representation, with a personal head for each client, `model.personal`. A client trains "
    "its head while the representation is fixed, and then the representation while its head is.",
    {HeadEpochs()}, FedRep,
    "h_k ← h_k − client.optimizer.learning_rate · ∇_h F_k(w, h_k);  then\n"
    "w_k ← w_k − client.optimizer.learning_rate · ∇_w F_k(w_k, h_k);  h_k stays with client k\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
