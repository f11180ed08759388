// SCAFFOLD's server (Karimireddy et al. 2020, arXiv:1910.06378, equation 5): with Δy and Δc the mean changes of a
// cohort S of N clients,
//
//   x ← x + server.learning_rate · Δy
//   c ← c + (|S| / N) · Δc = c + Σ_{i ∈ S} Δc_i / N
//
// The part "dc" arrives divided by N. Statistics take the model's step.
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

class ServerScaffold final : public ServerOptimizer {
 public:
  std::vector<Flat> Flats() const override { return {{"server/c"}}; }
  std::vector<std::string> Parts() const override { return {"dc"}; }

  bool Step(const ServerStep& step) const override {
    const float* const params = step.params.data();
    const float* const mean = step.mean.data();
    float* const next = step.next.data();
    uint32_t bad = 0;
    for (size_t i = 0; i < step.next.size(); ++i) {
      next[i] = static_cast<float>(static_cast<double>(params[i]) + step.learning_rate * static_cast<double>(mean[i]));
      bad |= IsNotFinite(next[i]) ? 1 : 0;
    }
    if (step.segment == Segment::kShared) return bad == 0;
    float* const c = step.flats[0].data();
    const float* const dc = step.parts[0].data();
    for (size_t i = 0; i < step.next.size(); ++i) {
      c[i] = static_cast<float>(static_cast<double>(c[i]) + static_cast<double>(dc[i]));
      bad |= IsNotFinite(c[i]) ? 1 : 0;
    }
    return bad == 0;
  }
};

RIVULET_SERVER_OPTIMIZER(server_scaffold_registration, "scaffold", {},
                         [](const Settings&) -> StatusOr<std::unique_ptr<const ServerOptimizer>> {
                           return std::make_unique<ServerScaffold>();
                         });

}  // namespace
}  // namespace rivulet
