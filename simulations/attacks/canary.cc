// Updates that are random directions, for audits (Andrew et al. 2024, arXiv:2302.03098), some of them excluded by a
// coin (Steinke, Nasr, Jagielski 2023, arXiv:2305.08846).
#include "simulations/attacks/canary.h"

#include <cmath>

#include "federated/random/streams.h"
#include "simulations/attacks/attack.h"

namespace rivulet {
namespace {

class CanaryClient final : public Attack {
 public:
  explicit CanaryClient(double norm) : norm_(norm) {}
  bool changes_updates() const override { return true; }
  bool keeps_to_client() const override { return true; }
  Status Change(std::span<float> delta, Draws draws, const BenignFn&) const override {
    const Canary canary = CanaryFrom(std::move(draws), delta.size());
    const double factor = canary.taken ? norm_ : 0;
    for (size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<float>(factor * canary.direction[i]);
    return absl::OkStatus();
  }

 private:
  const double norm_;
};

RIVULET_ATTACK(kCanaryAttack,
               {Float("norm", 1.0,
                      "Norm of a canary's update: `privacy.clip`, or 1 with `algorithm.clip_quantile`. A longer one is "
                      "refused.")
                    .Above(0)},
               [](const Settings& settings, Attack::Features) -> std::unique_ptr<const Attack> {
                 return std::make_unique<CanaryClient>(settings.number("norm"));
               });

}  // namespace

Canary CanaryFrom(Draws draws, size_t elements) {
  Canary canary;
  canary.taken = draws.Uniform() < 0.5;
  canary.direction.resize(elements);
  double squares = 0;
  for (double& value : canary.direction) {
    value = draws.Normal();
    squares += value * value;
  }
  for (double& value : canary.direction) value /= std::sqrt(squares);
  return canary;
}

Draws DrawsOfAttacker(uint64_t stream_key) { return Draws(StreamFor(stream_key, Purpose::kAttack, 0, 0), 0); }

}  // namespace rivulet
