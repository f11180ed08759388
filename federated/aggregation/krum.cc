// Krum (Blanchard et al. 2017, arXiv:1703.02757, section 4): of K updates, f = floor(byzantine · K) may be malicious.
// Each is scored by the sum of its squared distances to its K − f − 2 nearest others. "krum" is the update with the
// least score, "multi_krum" the mean of the K − f least ones. For equal scores the first task's update is taken.
//
// No check can show that a majority is honest; below the paper's K > 2f + 2, at least the nearest update is scored.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "federated/aggregation/whole_updates_rule.h"

namespace rivulet {
namespace {

class Krum final : public WholeUpdatesRule {
 public:
  Krum(double byzantine, bool multi) : byzantine_(byzantine), multi_(multi) {}

  Counts Count(const SquaredDistances& distances) const override {
    const size_t updates = distances.updates();
    // 0.3 × 10 is slightly below 3 in binary, but 3 is intended.
    const auto wrong = static_cast<size_t>(std::floor(byzantine_ * static_cast<double>(updates) + 1e-9));
    const size_t nearest = updates > wrong + 3 ? updates - wrong - 2 : 1;
    std::vector<double> scores(updates);
    for (size_t u = 0; u < updates; ++u) {
      std::vector<double> squares;
      for (size_t v = 0; v < updates; ++v) {
        if (v != u) squares.push_back(distances.at(u, v));
      }
      std::ranges::sort(squares);
      for (size_t v = 0; v < std::min(nearest, squares.size()); ++v) scores[u] += squares[v];
    }
    std::vector<size_t> order(updates);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t u) { return scores[u]; });
    const size_t chosen = multi_ ? updates - wrong : 1;
    Counts counts{std::vector<double>(updates), static_cast<double>(chosen)};
    for (size_t i = 0; i < chosen; ++i) counts.of[order[i]] = 1;
    return counts;
  }

 private:
  const double byzantine_;
  const bool multi_;
};

Setting ByzantineFraction() {
  return Float("byzantine", 0, "Of the updates, how many may be wrong.").AtLeast(0).Below(0.5);
}

RIVULET_UPDATES_RULE("krum", {ByzantineFraction()}, [](const Settings& settings) {
  return std::unique_ptr<const UpdatesRule>(std::make_unique<Krum>(settings.number("byzantine"), false));
});
RIVULET_UPDATES_RULE("multi_krum", {ByzantineFraction()}, [](const Settings& settings) {
  return std::unique_ptr<const UpdatesRule>(std::make_unique<Krum>(settings.number("byzantine"), true));
});

}  // namespace
}  // namespace rivulet
