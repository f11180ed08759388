// The coordinate-wise trimmed mean (Yin et al. 2018, arXiv:1803.01498, definition 2): for each coordinate, the largest
// and the smallest floor(trim × updates) values are dropped and the others averaged with equal weights. As long as no
// more updates than that are malicious, none can move a coordinate beyond the honest values.
//
// The remaining values are added as the integers of a uniform mean. So trim = 0 equals a uniform mean to the bit, and
// it does not matter which of two equal values was dropped.
#include "federated/aggregation/trimmed_mean.h"

#include <algorithm>
#include <cmath>

#include "federated/aggregation/updates_rule.h"

namespace rivulet {
namespace {

class TrimmedMean final : public UpdatesRule {
 public:
  explicit TrimmedMean(double trim) : trim_(trim) {}

  void Reduce(const Columns& columns, std::span<float> out) const override {
    const size_t updates = columns.updates.size();
    // 0.3 × 10 is slightly below 3 in binary, but 3 is intended.
    const double wanted = std::floor(trim_ * static_cast<double>(updates) + 1e-9);
    const size_t cut = std::min(static_cast<size_t>(wanted), (updates - 1) / 2);
    const double divisor = static_cast<double>(updates - 2 * cut) * columns.unit;
    std::vector<float> column(updates);
    const auto low = column.begin() + static_cast<std::ptrdiff_t>(cut);
    const auto high = column.end() - static_cast<std::ptrdiff_t>(cut);
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t u = 0; u < updates; ++u) column[u] = columns.updates[u][i];
      if (cut > 0) {
        std::nth_element(column.begin(), low, column.end());
        std::nth_element(low, high, column.end());
      }
      int64_t sum = 0;
      for (auto value = low; value != high; ++value) {
        sum += static_cast<int64_t>(std::nearbyint(static_cast<double>(*value) * columns.unit));
      }
      out[i] = static_cast<float>(static_cast<double>(sum) / divisor);
    }
  }

 private:
  const double trim_;
};

RIVULET_UPDATES_RULE("trimmed_mean", TrimmedMeanSettings(), [](const Settings& settings) {
  return std::unique_ptr<const UpdatesRule>(std::make_unique<TrimmedMean>(settings.number("trim")));
});
// The coordinate-wise median (definition 1): trims as much as possible; for an even number of updates it is the mean of
// the two middle values.
RIVULET_UPDATES_RULE("median", {}, [](const Settings&) {
  return std::unique_ptr<const UpdatesRule>(std::make_unique<TrimmedMean>(0.5));
});

}  // namespace
}  // namespace rivulet
