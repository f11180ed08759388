// MOON (Li et al. 2021, arXiv:2103.16257, algorithm 1): federated averaging with a contrastive loss. It pulls a
// client's representations towards the received model's and away from its last model's. For an example x with the
// representations z of the model in training, z_glob of the received model and z_prev of the client's last one,
//
//   l_con = −log( e^(sim(z, z_glob) / τ) / (e^(sim(z, z_glob) / τ) + e^(sim(z, z_prev) / τ)) )           (equation 3)
//         = log(1 + e^((sim(z, z_prev) − sim(z, z_glob)) / τ)),    sim(a, b) = a·b / (‖a‖ ‖b‖)
//   l = l_sup(w; (x, y)) + mu · l_con(w; w_prev; w_glob; x)                                          (equations 4, 5)
//
// averaged over a batch. The representation is the input of the model's last dense layer; the paper's projection before
// that layer must be part of the model. A client's first task starts with z_prev = z_glob, where the second term has no
// gradient. It also has none if all models have equal representations, because the only dense layer takes the input. mu
// = 0 is federated averaging.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kGlobal[] = "global", kPrevious[] = "previous", kKept[] = "state/previous";
constexpr char kRepresentation[] = "representation";
// Added under the roots, so that a zero representation has similarity 0 and finite gradients.
constexpr float kLeastSquare = 1e-16f;

Setting Weight() {
  Setting mu = Float("mu", 1, "Weight of the contrastive term; 0 is federated averaging.").Between(0, 1e6);
  mu.example = "5";
  return mu;
}

Setting Temperature() {
  Setting temperature = Float("temperature", 0.5, "Divisor of similarities: a smaller one separates them more sharply.")
                            .Between(1e-3, 1e3);
  temperature.example = "0.2";
  return temperature;
}

// Sum of products over the last axis.
Output SumOfProducts(const Scope& scope, Output a, Output b) {
  return scope.Op("Sum", {scope.Op("Mul", {a, b}), scope.Const(Tensor::Of<int32_t>({1}, {-1}))});
}

Output InverseNorm(const Scope& scope, Output a) {
  return scope.Op("Rsqrt", {scope.Op("AddV2", {SumOfProducts(scope, a, a), scope.Const(kLeastSquare)})});
}

Output Similarity(const Scope& scope, Output a, Output b) {
  const Output scale = scope.Op("Mul", {InverseNorm(scope, a), InverseNorm(scope, b)});
  return scope.Op("Mul", {SumOfProducts(scope, a, b), scale});
}

Output MeanOfAll(const Scope& scope, Output values) {
  return scope.Op("Mean", {scope.Op("Reshape", {values, scope.Const(Tensor::Of<int32_t>({1}, {-1}))}),
                           scope.Const(Tensor::Of<int32_t>({1}, {0}))});
}

StatusOr<Composition> Moon(const AlgorithmContext& context) {
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = kPrevious, .from_base = true}};
  const auto mu = static_cast<float>(context.settings.number("mu"));
  const auto temperature = static_cast<float>(context.settings.number("temperature"));
  for (PassBuilder& pass : composition.passes) {
    pass.models = {{}, {kGlobal, "base_params"}, {kPrevious, kKept}};
    pass.loss = [mu, temperature](LossScope& f) {
      const Scope& scope = f.scope();
      const Output z = f.Of(kRepresentation), global = f.Of(kRepresentation, kGlobal),
                   previous = f.Of(kRepresentation, kPrevious);
      const Output apart = scope.Op("Sub", {Similarity(scope, z, previous), Similarity(scope, z, global)});
      const Output contrast =
          MeanOfAll(scope, scope.Op("Softplus", {scope.Op("RealDiv", {apart, scope.Const(temperature)})}));
      return scope.Op("AddV2", {f.Loss(), scope.Op("Mul", {contrast, scope.Const(mu)})});
    };
    pass.at_end = [](FlatScope& f) { f.Assign(kKept, f.params()); };
  }
  return composition;
}

RIVULET_ALGORITHM(
    moon_registration, "moon", "Li et al. 2021, arXiv:2103.16257, algorithm 1",
    "Federated averaging with a contrastive term: each client learns to represent its data more like the received "
    "model and less like its own last one, which it keeps. For models with a dense layer: presets and `model.layers`.",
    {Weight(), Temperature()}, Moon,
    "l_con = log(1 + exp((sim(z, z_prev) − sim(z, z_glob)) / temperature))\n"
    "l = l_sup(w; (x, y)) + mu · l_con(w; w_prev; w^t; x)\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
