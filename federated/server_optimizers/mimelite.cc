// MimeLite's server (Karimireddy et al. 2021, arXiv:2008.03606, algorithm 1): with d the mean change, and ḡ the mean of
// the clients' full gradients at the received model, sent as the part "gradient",
//
//   w ← w + server.learning_rate · d,    m ← (1 − beta) · ḡ + beta · m
//
// Clients' steps of the next round include m. Statistics take the model's step. Mime's server also stores ḡ.
#include <algorithm>

#include "federated/server_optimizers/sgd.h"

namespace rivulet {
namespace {

class ServerMimeLite final : public ServerSgd {
 public:
  ServerMimeLite(double beta, bool keeps_mean) : beta_(beta), keeps_mean_(keeps_mean) {}

  std::vector<Flat> Flats() const override {
    if (keeps_mean_) return {{"server/m"}, {"server/c"}};
    return {{"server/m"}};
  }
  std::vector<std::string> Parts() const override { return {"gradient"}; }

  bool Step(const ServerStep& step) const override {
    if (!ServerSgd::Step(step)) return false;
    if (step.segment == Segment::kShared) return true;
    float* const m = step.flats[0].data();
    const float* const gradient = step.parts[0].data();
    uint32_t bad = 0;
    for (size_t i = 0; i < step.next.size(); ++i) {
      m[i] = static_cast<float>((1 - beta_) * gradient[i] + beta_ * m[i]);
      bad |= IsNotFinite(m[i]) ? 1 : 0;
    }
    if (keeps_mean_) std::ranges::copy(step.parts[0], step.flats[1].begin());
    return bad == 0;
  }

 private:
  const double beta_;
  const bool keeps_mean_;
};

RIVULET_SERVER_OPTIMIZER(server_mimelite_registration, "mimelite",
                         {Float("beta", std::nullopt, "Of the momentum, how much stays in a round.").Between(0, 1),
                          Flag("keeps_mean", false, "Whether the mean of the clients' gradients is kept as server/c.")},
                         [](const Settings& settings) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerMimeLite>(settings.number("beta"),
                                                                   settings.flag("keeps_mean"));
                         });

}  // namespace
}  // namespace rivulet
