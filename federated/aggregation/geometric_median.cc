// The geometric median, by the smoothed Weiszfeld algorithm (Pillutla et al. 2022, arXiv:1912.13445, algorithm 2): from
// the mean v of the updates x_u, `iterations` times
//
//   β_u ← 1 / max(smoothing, ‖v − x_u‖),    v ← Σ_u β_u · x_u / Σ_u β_u
//
// All updates have the same weight. v is never stored: the factors of the updates define it.
#include <algorithm>

#include "federated/aggregation/whole_updates_rule.h"

namespace rivulet {
namespace {

class GeometricMedian final : public WholeUpdatesRule {
 public:
  GeometricMedian(double smoothing, double iterations)
      : smoothing_(smoothing), iterations_(static_cast<int>(iterations)) {}

  Counts Count(const SquaredDistances& distances) const override {
    Counts counts{std::vector<double>(distances.updates(), 1.0), static_cast<double>(distances.updates())};
    for (int i = 0; i < iterations_; ++i) {
      std::vector<double> weights = counts.of;
      for (double& weight : weights) weight /= counts.divisor;
      counts.of = distances.To(weights);
      for (double& distance : counts.of) distance = std::max(smoothing_, distance);
      // The nearest update gets 1 and the others less, because Reduce requires factors up to 1.
      const double least = std::ranges::min(counts.of);
      counts.divisor = 0;
      for (double& count : counts.of) {
        count = least / count;
        counts.divisor += count;
      }
    }
    return counts;
  }

 private:
  const double smoothing_;
  const int iterations_;
};

RIVULET_UPDATES_RULE("geometric_median",
                     {Float("smoothing", 1e-6, "Least distance that is divided by.").Above(0),
                      Float("iterations", 3, "Steps in which the weights are corrected.").Between(0, 1000)},
                     [](const Settings& settings) {
                       return std::unique_ptr<const UpdatesRule>(std::make_unique<GeometricMedian>(
                           settings.number("smoothing"), settings.number("iterations")));
                     });

}  // namespace
}  // namespace rivulet
