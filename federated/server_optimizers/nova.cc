// FedNova's server (Wang et al. 2020, arXiv:2007.07481, equation 7): the received mean d is the clients' mean change
// per local step, and the model moves by the mean number of local steps, τ_eff:
//
//   w ← w + server.learning_rate · τ_eff · d,    τ_eff = Σ_k p_k τ_k
#include "federated/server_optimizers/sgd.h"

namespace rivulet {
namespace {

class ServerNova final : public ServerSgd {
 public:
  double Factor(VersionMean&, const VersionSums& sums) const override {
    return sums.scalars.at("steps") / sums.denominator;
  }
};

RIVULET_SERVER_OPTIMIZER(server_nova_registration, "nova", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerNova>();
                         });

}  // namespace
}  // namespace rivulet
