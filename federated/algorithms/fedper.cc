// FedPer (Arivazhagan et al. 2019, arXiv:1912.00818, algorithms 1 and 2): the base layers of the model are shared and
// averaged. Personalisation layers (model.personal) belong to each client and never leave it. All are trained together.
// It is federated averaging of a model with such layers, and refuses models without.
#include "federated/algorithms/personal.h"

namespace rivulet {
namespace {

StatusOr<Composition> FedPer(const AlgorithmContext& context) {
  RIVULET_RETURN_IF_ERROR(CheckPersonalLayers(context));
  return FedAvg(context);
}

RIVULET_ALGORITHM(
    fedper_registration, "fedper", "Arivazhagan et al. 2019, arXiv:1912.00818, algorithms 1 and 2",
    "Federated averaging of the base layers of a model whose last ones are each client's own: `model.personal` says "
    "which, such as [\"dense3/*\"]. All are trained together.",
    {}, FedPer,
    "(w_k, v_k) ← local training of F_k from (w, v_k);  v_k stays with client k\n"
    "w ← w + server.learning_rate · Σ_k (n_k / n) · (w_k − w)");

}  // namespace
}  // namespace rivulet
