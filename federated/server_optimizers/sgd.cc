// SGD on the server: w ← w + server.learning_rate × mean delta, as in FedAvg (McMahan et al. 2017; learning rate 1) and
// FedOpt's SGD (Reddi et al. 2021, arXiv:2003.00295). Statistics take the same step.
#include "federated/server_optimizers/sgd.h"

namespace rivulet {

bool ServerSgd::Step(const ServerStep& step) const {
  const float* const params = step.params.data();
  const float* const mean = step.mean.data();
  float* const next = step.next.data();
  const double rate = step.learning_rate * step.factor;
  uint32_t bad = 0;
  for (size_t i = 0; i < step.next.size(); ++i) {
    next[i] = static_cast<float>(static_cast<double>(params[i]) + rate * static_cast<double>(mean[i]));
    bad |= IsNotFinite(next[i]) ? 1 : 0;
  }
  return bad == 0;
}

namespace {

RIVULET_SERVER_OPTIMIZER(server_sgd_registration, "sgd", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerSgd>();
                         });

}  // namespace
}  // namespace rivulet
