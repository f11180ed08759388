// FedDyn's server (Acar et al. 2021, arXiv:2111.04263, algorithm 1): with d the mean change of a cohort P of m clients,
//
//   h ← h − alpha · (|P| / m) · d,    w ← w + server.learning_rate · d − h / alpha
//
// h estimates the sum of all clients' gradients at w. With alpha = 0 it stays zero, and the last term is omitted.
// Statistics take the model's step.
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerDyn final : public ServerOptimizer {
 public:
  ServerDyn(double alpha, double clients) : alpha_(alpha), clients_(clients) {}

  std::vector<Flat> Flats() const override { return {{"server/h"}}; }
  double Factor(VersionMean&, const VersionSums& sums) const override {
    return static_cast<double>(sums.updates) / clients_;
  }

  bool Step(const ServerStep& step) const override {
    uint32_t bad = 0;
    const bool averaged = step.segment == Segment::kShared || alpha_ == 0;
    for (size_t i = 0; i < step.next.size(); ++i) {
      const double w = step.params[i], d = step.mean[i];
      double correction = 0;
      if (!averaged) {
        float& h = step.flats[0][i];
        h = static_cast<float>(h - alpha_ * step.factor * d);
        correction = h / alpha_;
        bad |= IsNotFinite(h) ? 1 : 0;
      }
      step.next[i] = static_cast<float>(w + step.learning_rate * d - correction);
      bad |= IsNotFinite(step.next[i]) ? 1 : 0;
    }
    return bad == 0;
  }

 private:
  const double alpha_, clients_;
};

RIVULET_SERVER_OPTIMIZER(server_dyn_registration, "dyn",
                         {Float("alpha", std::nullopt, "Weight of the regulariser.").AtLeast(0),
                          Float("clients", std::nullopt, "How many there are.").AtLeast(1)},
                         [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerDyn>(settings.number("alpha"), settings.number("clients"));
                         });

}  // namespace
}  // namespace rivulet
