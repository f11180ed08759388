// The server of signSGD with majority vote (Bernstein et al. 2018, arXiv:1802.04434, algorithm 3): every weight moves
// by the same length in the direction of the mean vote, and does not move if that is zero:
//
//   w ← w + server.learning_rate · sign(mean)
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerMajority final : public ServerOptimizer {
 public:
  bool Step(const ServerStep& step) const override {
    bool finite = true;
    for (size_t i = 0; i < step.next.size(); ++i) {
      double move = step.mean[i], rate = 1;  // statistics are averaged
      if (step.segment == Segment::kTrainable) {
        move = move > 0 ? 1 : move < 0 ? -1 : 0;
        rate = step.learning_rate;
      }
      step.next[i] = static_cast<float>(step.params[i] + rate * move);
      finite &= !IsNotFinite(step.next[i]) && !IsNotFinite(step.mean[i]);
    }
    return finite;
  }
};

RIVULET_SERVER_OPTIMIZER(server_majority_registration, "majority", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerMajority>();
                         });

}  // namespace
}  // namespace rivulet
