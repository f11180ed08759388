// Damped averaging, in a library of its own: the server goes the less of its way, the further an element would move.
// With d the mean delta,
//
//   w ← w + server.learning_rate · d / (1 + damping · |d|)
//
// With damping = 0 it is federated averaging, to the bit.
#include <cmath>

#include "federated/algorithms/algorithm_library.h"

RIVULET_ALGORITHM_LIBRARY("Averages of our own.");

namespace rivulet {
namespace {

std::vector<Setting> Options() {
  return {Float("damping", 1, "How much less an element moves that would move far.").Between(0, 1e6)};
}

class Damped final : public ServerOptimizer {
 public:
  explicit Damped(double damping) : damping_(damping) {}

  bool Step(const ServerStep& step) const override {
    bool finite = true;
    for (size_t i = 0; i < step.next.size(); ++i) {
      const double move = step.mean[i] / (1 + damping_ * std::abs(static_cast<double>(step.mean[i])));
      step.next[i] = static_cast<float>(step.params[i] + step.learning_rate * move);
      finite &= !IsNotFinite(step.next[i]);
    }
    return finite;
  }

 private:
  const double damping_;
};

RIVULET_SERVER_OPTIMIZER(damped_optimizer, "damped", Options(),
                         [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<Damped>(settings.number("damping"));
                         });

RIVULET_ALGORITHM(
    damped_algorithm, "damped", "none: an example", "Federated averaging whose server damps large moves.", Options(),
    [](const AlgorithmContext& context) -> StatusOr<Composition> {
      RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
      composition.server_optimizer = {"damped", context.settings.values()};
      return composition;
    },
    "w ← w + server.learning_rate · d / (1 + damping · |d|)");

}  // namespace
}  // namespace rivulet
