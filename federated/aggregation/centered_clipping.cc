// Centred clipping (Karimireddy et al. 2021, arXiv:2012.10333, equation CC): from v = 0, `iterations` times
//
//   v ← v + (1 / K) · Σ_u (x_u − v) · min(1, tau / ‖x_u − v‖)
//
// over the K updates x_u. The paper starts from the previous round's result; here each round starts from zero. With one
// iteration it is norm clipping.
#include <algorithm>

#include "federated/aggregation/whole_updates_rule.h"

namespace rivulet {
namespace {

class CenteredClipping final : public WholeUpdatesRule {
 public:
  CenteredClipping(double tau, double iterations) : tau_(tau), iterations_(static_cast<int>(iterations)) {}

  // v = Σ_u c_u x_u / K throughout. With the factor s_u of update u, each step is c_u ← c_u · (1 − Σ_v s_v / K) + s_u.
  // Without clipping c_u is exactly 1.
  Counts Count(const SquaredDistances& distances) const override {
    const auto updates = static_cast<double>(distances.updates());
    Counts counts{std::vector<double>(distances.updates()), updates};
    for (int i = 0; i < iterations_; ++i) {
      std::vector<double> weights = counts.of;
      for (double& weight : weights) weight /= updates;
      std::vector<double> factors = distances.To(weights);
      double sum = 0;
      for (double& factor : factors) {
        factor = factor > tau_ ? tau_ / factor : 1;
        sum += factor;
      }
      for (size_t u = 0; u < factors.size(); ++u) counts.of[u] = counts.of[u] * (1 - sum / updates) + factors[u];
    }
    return counts;
  }

 private:
  const double tau_;
  const int iterations_;
};

RIVULET_UPDATES_RULE("centered_clipping",
                     {Float("tau", 1, "Radius within which an update counts whole.").Above(0),
                      Float("iterations", 1, "Steps in which the centre is corrected.").Between(1, 1000)},
                     [](const Settings& settings) {
                       return std::unique_ptr<const UpdatesRule>(
                           std::make_unique<CenteredClipping>(settings.number("tau"), settings.number("iterations")));
                     });

}  // namespace
}  // namespace rivulet
