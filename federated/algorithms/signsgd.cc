// SignSGD with majority vote (Bernstein et al. 2018, arXiv:1802.04434, algorithm 3): each client sends only the sign of
// each element of its gradient over all its examples. The server moves every weight by the same length, in the
// direction of the majority. A client can change no more than its own vote, whatever it sends:
//
//   w ← w − server.learning_rate · sign( Σ_k sign(∇F_k(w)) )
//
// With a tie, a weight does not change (federated/server_optimizers/majority.cc). Votes are −1, 0 and 1; running
// statistics are averaged.
#include "federated/algorithms/algorithm.h"

namespace rivulet {
namespace {

constexpr char kVote[] = "update/vote";

StatusOr<Composition> SignSgd(const AlgorithmContext& context) {
  if (!context.scenario.client.input_graph.empty()) {
    return InvalidArgument(
        "[algorithm] name = \"signsgd\" takes the gradient of all of a client's examples in one batch, but "
        "client.input_graph makes other batches; leave that out");
  }
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  PassBuilder& pass = composition.passes[0];
  pass.epochs = 1;
  pass.batch_size = kWholeBatch;
  // A pass that stores the sign of its gradient and does not change the model.
  pass.gradient = [](FlatScope& f) {
    f.Assign(kVote, f.scope().Op("Sign", {f.Scale(-1, f.grads())}));
    return f.Scale(0, f.grads());
  };
  composition.parts["delta"] = {.from = kVote, .less = ""};
  composition.aggregation.parts = {
      {.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
  composition.server_optimizer = {"majority"};
  return composition;
}

RIVULET_ALGORITHM(
    signsgd_registration, "signsgd", "Bernstein et al. 2018, arXiv:1802.04434, algorithm 3",
    "One step a round in which clients vote which way every weight goes. All count the same, however large their "
    "gradients are, so that few of them can do little harm. `server.learning_rate` is how far every weight goes; "
    "0.001 is a good beginning.",
    {}, SignSgd, "w ← w − server.learning_rate · sign(Σ_k sign(∇F_k(w)))");

}  // namespace
}  // namespace rivulet
