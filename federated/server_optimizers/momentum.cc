// Momentum on the server (Hsu et al. 2019, arXiv:1909.06335): with d the mean delta,
//
//   m ← beta·m + d,  w ← w + server.learning_rate · m
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerMomentum final : public ServerOptimizer {
 public:
  explicit ServerMomentum(double beta) : beta_(beta) {}

  std::vector<Flat> Flats() const override { return {{"server/momentum"}}; }

  bool Step(const ServerStep& step) const override {
    bool finite = true;
    for (size_t i = 0; i < step.next.size(); ++i) {
      float move = step.mean[i];
      if (step.segment == Segment::kTrainable) {  // running statistics take the model's step
        float& m = step.flats[0][i];
        m = static_cast<float>(beta_ * m + step.mean[i]);
        move = m;
      }
      step.next[i] = static_cast<float>(step.params[i] + step.learning_rate * move);
      finite &= !IsNotFinite(step.next[i]) && !IsNotFinite(move);
    }
    return finite;
  }

 private:
  const double beta_;
};

RIVULET_SERVER_OPTIMIZER(
    server_momentum_registration, "momentum",
    {Float("beta", 0.9, "Share of a round's step that is added to the next round's.").Between(0, 1)},
    [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
      return std::make_unique<ServerMomentum>(settings.number("beta"));
    });

}  // namespace
}  // namespace rivulet
