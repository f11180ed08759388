// Agnostic federated learning (Mohri et al. 2019, arXiv:1902.00146, figure 2): min over w of the max over mixtures λ of
// Σ_k λ_k F_k(w), that is, it optimises the model for the worst mixture of clients. Clients are the domains. For each
// version
//
//   w ← w + server.learning_rate · Σ_k λ_k (w_k − w) / Σ_k λ_k,    λ ← Π_Λ(λ + weights_learning_rate · F(w))
//
// (federated/numbers/agnostic.cc). F_k(w) is the loss of the model that a client received, which it measures besides
// training and which its rows record as train_loss. The paper uses single gradients of all domains; here clients train
// as in federated averaging in sampled cohorts, and `memory` keeps each client's last loss. Weights are multiples of
// 1/4096. With a learning rate of 0 it is federated averaging with uniform weights: to the bit if sums have the same
// resolution.
#include <algorithm>
#include <cmath>

#include "federated/algorithms/algorithm.h"
#include "federated/numbers/number_rule.h"

namespace rivulet {
namespace {

constexpr char kWeight[] = "weight";
constexpr int kFractionBits = 12;

std::vector<Setting> Options() {
  Setting rate = Float("weights_learning_rate", 0.01,
                       "Learning rate of the ascent of the clients' weights; 0: all "
                       "count the same.")
                     .Between(0, 1e6);
  rate.example = "0.1";
  Setting least =
      Float("least_weight", 0.01, "Least weight of a client, where the mean weight is 1.").Between(0.001, 1);
  least.example = "0.5";
  Setting memory = Flag("memory", true, "Whether a client that was not drawn counts by its last reported loss.");
  memory.example = "false";
  return {rate, least, memory};
}

StatusOr<Composition> AgnosticFederatedLearning(const AlgorithmContext& context) {
  const Scenario& scenario = context.scenario;
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  for (PassBuilder& pass : composition.passes) pass.reports = "last_loss";
  // After the training, so that the training's random draws are those of federated averaging.
  PassBuilder look;
  look.models = {{.buffer = "base_params"}};
  look.trains = "";
  composition.passes.push_back(std::move(look));
  composition.numbers = {kWeight};
  const Settings& settings = context.settings;
  composition.number_rule = {"agnostic",
                             {{"learning_rate", settings.number("weights_learning_rate")},
                              {"least", settings.number("least_weight")},
                              {"memory", settings.flag("memory")}}};
  RIVULET_ASSIGN_OR_RETURN(const auto rule, NumberRule::Create(composition.number_rule));
  if (scenario.data.partition.clients > rule->most_clients()) {
    return InvalidArgument(
        "[algorithm] name = \"agnostic\" keeps a weight of each client in each version, and there are {} clients "
        "(data.partition.clients); take at most {}",
        scenario.data.partition.clients, rule->most_clients());
  }
  composition.aggregation.weight_fraction_bits = kFractionBits;
  composition.aggregation.parts = {
      {.value_bits = static_cast<int>(scenario.server.value_bits), .weigh = fmt::format("scalar:{}", kWeight)}};
  return composition;
}

RIVULET_ALGORITHM(
    agnostic_registration, "agnostic", "Mohri et al. 2019, arXiv:1902.00146, figure 2",
    "Agnostic federated learning: clients count by weights that the server raises where the loss is large, towards a "
    "model that is good for whomever it is worst. Clients measure the model that they were given, too.",
    Options(), AgnosticFederatedLearning,
    "λ ← Π_Λ(λ + weights_learning_rate · (F_1(w), …, F_n(w))),  Λ = {λ : Σ_k λ_k = 1, λ_k ≥ least_weight / n}\n"
    "w ← w + server.learning_rate · Σ_k λ_k · (w_k − w) / Σ_k λ_k");

}  // namespace
}  // namespace rivulet
