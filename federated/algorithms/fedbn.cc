// FedBN (Li et al. 2021, arXiv:2102.07623, algorithm 1): for clients with different feature distributions (another
// scanner, another light). Each keeps its own batch normalisations with their running statistics, and all else is
// averaged. A client's model is the version with its own normalisations, and is measured as such.
//
// It is federated averaging of a model with its normalisations in model.personal. It refuses models whose statistics
// would be averaged. In the first version, all else equals federated averaging to the bit.
#include "federated/algorithms/personal.h"

namespace rivulet {
namespace {

constexpr std::string_view kNormalizations = "*norm*/*";

StatusOr<Composition> FedBn(const AlgorithmContext& context) {
  RIVULET_RETURN_IF_ERROR(CheckPersonalLayers(context, kNormalizations));
  if (context.layout.elements(Segment::kShared) > 0) {
    return InvalidArgument(
        "[algorithm] name = \"fedbn\" leaves every batch normalisation to the clients, and some running statistics of "
        "this model are averaged; name all of them in model.personal, such as [\"{}\"]",
        kNormalizations);
  }
  return FedAvg(context);
}

RIVULET_ALGORITHM(
    fedbn_registration, "fedbn", "Li et al. 2021, arXiv:2102.07623, algorithm 1",
    "Federated averaging of all but the batch normalisations, which each client keeps with their running statistics: "
    "`model.personal` names them, such as [\"*norm*/*\"]. For clients that see the same things differently.",
    {}, FedBn,
    "(w_k, b_k) ← local training of F_k from (w, b_k);  b_k, of batch normalisations, stays with client k\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
