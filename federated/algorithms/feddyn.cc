// FedDyn (Acar et al. 2021, arXiv:2111.04263, algorithm 1): each client has a dynamic regulariser that follows its
// training, so that the clients' optima and the global optimum become one. Client k minimises from w^t
//
//   F_k(w) − ⟨h_k, w⟩ + (alpha / 2) · ‖w − w^t‖²,    h_k ← h_k − alpha · (w_k − w^t)
//
// where h_k is kept from task to task: the gradient of F_k at the end of its last task. From a cohort P of m clients,
// the server computes (federated/server_optimizers/dyn.cc)
//
//   h ← h − (alpha / m) · Σ_{k ∈ P} (w_k − w^t),    w ← w^t + Σ_{k ∈ P} (w_k − w^t) / |P| − h / alpha
//
// With alpha = 0 all h stay zero, and it is federated averaging with uniform weights, to the bit.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kOwnGradient[] = "state/h";

Setting Alpha() {
  Setting alpha = Float("alpha", 0.01, "Weight of the regulariser; 0 is federated averaging.").Between(0, 1e6);
  alpha.example = "0.1";
  return alpha;
}

StatusOr<Composition> FedDyn(const AlgorithmContext& context) {
  const int64_t clients = context.scenario.data.partition.clients;
  if (clients < 1) {
    return InvalidArgument(
        "[algorithm] name = \"feddyn\" divides by the number of all clients; give it as data.partition.clients");
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  composition.state = {{.name = "h"}};
  const double alpha = context.settings.number("alpha");
  for (PassBuilder& pass : composition.passes) {
    pass.gradient = [alpha](FlatScope& f) {
      const Output pulled = f.Add(f.grads(), f.Scale(alpha, f.Sub(f.params(), f.base_params())));
      return f.Sub(pulled, f.Read(kOwnGradient));
    };
    pass.at_end = [alpha](FlatScope& f) {
      f.Assign(kOwnGradient, f.Sub(f.Read(kOwnGradient), f.Scale(alpha, f.Sub(f.params(), f.base_params()))));
    };
  }
  composition.aggregation.parts = {
      {.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
  composition.server_optimizer = {"dyn", {{"alpha", alpha}, {"clients", static_cast<double>(clients)}}};
  return composition;
}

RIVULET_ALGORITHM(
    feddyn_registration, "feddyn", "Acar et al. 2021, arXiv:2111.04263, algorithm 1",
    "Federated averaging with a regulariser that each client and the server keep and move from round to round. It "
    "makes the clients' own optima agree with the common one. All count the same. Needs the number m of all "
    "clients: `data.partition.clients`, or as many as `data.partition` finds in `data.train`.",
    {Alpha()}, FedDyn,
    "∇ of client k: ∇F_k(w) − h_k + alpha · (w − w^t);  then h_k ← h_k − alpha · (w_k − w^t)\n"
    "h ← h − (alpha / m) · Σ_{k ∈ P} (w_k − w^t)\n"
    "w ← w^t + server.learning_rate · Σ_{k ∈ P} (w_k − w^t) / |P| − h / alpha",
    /*counts_clients=*/true);

}  // namespace
}  // namespace rivulet
