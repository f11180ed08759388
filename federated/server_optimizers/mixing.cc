// FedAsync's server (Xie et al. 2019, arXiv:1903.03934, algorithm 1): mixes
// models instead of adding changes. With x the mean of the clients' models,
// and α_t = server.learning_rate times the mean of their staleness weights,
//
//   w ← (1 − α_t) · w + α_t · x = w + α_t · (x − w)
//
// x − w is first rounded to float32, as a client's change would be. Running statistics are sent as changes, and take
// the step of server.learning_rate.
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerMixing final : public ServerOptimizer {
 public:
  double Factor(VersionMean&, const VersionSums& sums) const override {
    return sums.denominator / static_cast<double>(sums.updates);
  }

  bool Step(const ServerStep& step) const override {
    const double rate = step.learning_rate * step.factor;
    const bool models = step.segment == Segment::kTrainable;
    uint32_t bad = 0;
    for (size_t i = 0; i < step.next.size(); ++i) {
      const double now = step.params[i];
      const float move = models ? static_cast<float>(step.mean[i] - now) : step.mean[i];
      step.next[i] = static_cast<float>(now + rate * move);
      bad |= IsNotFinite(step.next[i]) ? 1 : 0;
    }
    return bad == 0;
  }
};

RIVULET_SERVER_OPTIMIZER(server_mixing_registration, "mixing", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerMixing>();
                         });

}  // namespace
}  // namespace rivulet
