// SCAFFOLD (Karimireddy et al. 2020, arXiv:1910.06378, algorithm 1 with option II): clients with different data drift
// apart as they train. Each corrects its steps by the difference of the mean of all clients' gradients, c, and its own,
// c_i. Client i of a cohort S of N clients takes K steps from y = x,
//
//   y ← y − η_l · (g_i(y) − c_i + c)                                                                    (equation 3)
//   c_i⁺ ← c_i − c + (x − y) / (K · η_l),    Δy = y − x,    Δc = c_i⁺ − c_i              (equation 4, option II)
//
// and the server, which sends c with the model to all clients (federated/server_optimizers/scaffold.cc), computes
//
//   x ← x + η_g · Σ_{i ∈ S} Δy_i / |S|,    c ← c + Σ_{i ∈ S} Δc_i / N                                   (equation 5)
//
// Its first round, in which all c are zero, is federated averaging with uniform weights.
#include "federated/algorithms/algorithm.h"
#include "federated/plan/learning_rate.h"

namespace rivulet {
namespace {

constexpr char kServerVariate[] = "broadcast/c", kOwnVariate[] = "state/c", kChange[] = "update/dc";

// Option II divides by the length of plain SGD steps.
Status CheckScaffold(const Scenario& scenario) {
  const OptimizerConfig& optimizer = scenario.client.optimizer;
  if (optimizer.kind != "sgd") {
    return InvalidArgument("[algorithm] name = \"scaffold\" needs client.optimizer.kind = \"sgd\", not \"{}\"",
                           optimizer.kind);
  }
  if (!(optimizer.learning_rate > 0) || !IsConstant(scenario.client.schedule)) {
    return InvalidArgument(
        "[algorithm] name = \"scaffold\" needs a client.optimizer.learning_rate above 0 and no client.schedule");
  }
  if (scenario.data.partition.clients < 1) {
    return InvalidArgument(
        "[algorithm] name = \"scaffold\" divides by the number of all clients; give it as data.partition.clients");
  }
  return absl::OkStatus();
}

StatusOr<Composition> Scaffold(const AlgorithmContext& context) {
  RIVULET_RETURN_IF_ERROR(CheckScaffold(context.scenario));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = "c"}};
  composition.broadcast = {"c"};
  for (PassBuilder& pass : composition.passes) {
    pass.gradient = [](FlatScope& f) { return f.Add(f.grads(), f.Sub(f.Read(kServerVariate), f.Read(kOwnVariate))); };
    pass.at_end = [rate = context.scenario.client.optimizer.learning_rate](FlatScope& f) {
      const Output mean_step = f.Over(f.Sub(f.base_params(), f.params()), f.Times(rate, f.steps()));
      const Output dc = f.Sub(mean_step, f.Read(kServerVariate));
      f.Assign(kChange, dc);
      f.Assign(kOwnVariate, f.Add(f.Read(kOwnVariate), dc));
    };
  }
  composition.parts["dc"] = {.from = kChange, .less = "", .shared_too = false};
  const auto value_bits = static_cast<int>(context.scenario.server.value_bits);
  const auto all = static_cast<double>(context.scenario.data.partition.clients);
  composition.aggregation.parts = {{.value_bits = value_bits, .weigh = "one"},
                                   {.name = "dc",
                                    .value_bits = value_bits,
                                    .weigh = "one",
                                    .denominator = {.kind = Denominator::Kind::kConstant, .constant = all}}};
  composition.server_optimizer = {"scaffold"};
  return composition;
}

RIVULET_ALGORITHM(
    scaffold_registration, "scaffold", "Karimireddy et al. 2020, arXiv:1910.06378, algorithm 1 with option II",
    "Federated averaging whose clients correct their steps by the difference between their gradients and the mean of "
    "all clients' gradients. Each keeps a control variate from round to round; the server keeps and sends another. All "
    "clients count the same. Needs `client.optimizer.kind` \"sgd\" at a constant rate, and the number N of all "
    "clients: `data.partition.clients`, or as many as `data.partition` finds in `data.train`.",
    {}, Scaffold,
    "y ← y − client.optimizer.learning_rate · (g_i(y) − c_i + c),  K times from y = x\n"
    "c_i⁺ ← c_i − c + (x − y) / (K · client.optimizer.learning_rate)\n"
    "x ← x + server.learning_rate · Σ_{i ∈ S} (y_i − x) / |S|\n"
    "c ← c + Σ_{i ∈ S} (c_i⁺ − c_i) / N",
    /*counts_clients=*/true);

}  // namespace
}  // namespace rivulet
