// The other kinds of piece that a library may hold: a way of selecting, a rule over updates and its algorithm.
#include <algorithm>

#include "federated/aggregation/updates_rule.h"
#include "federated/algorithms/algorithm.h"
#include "federated/selection/selector.h"

namespace rivulet {
namespace {

// The first members by name, always.
class FirstOnes final : public Selector {
 public:
  bool remembers() const override { return false; }
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override {
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < draw.members; ++rank) all.push_back(rank);
    return OrderBeginning(draw, std::move(all));
  }
};

RIVULET_SELECTOR(first_ones_registration, "first_ones", "The first members by name, always.", {},
                 [](const Settings&) -> std::unique_ptr<const Selector> { return std::make_unique<FirstOnes>(); });

// Half way between the smallest and the largest.
class Midrange final : public UpdatesRule {
 public:
  void Reduce(const Columns& columns, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      float low = columns.updates[0][i], high = low;
      for (const std::span<const float> update : columns.updates) {
        low = std::min(low, update[i]);
        high = std::max(high, update[i]);
      }
      out[i] = static_cast<float>((static_cast<double>(low) + high) / 2);
    }
  }
};

RIVULET_UPDATES_RULE("midrange", {},
                     [](const Settings&) { return std::unique_ptr<const UpdatesRule>(std::make_unique<Midrange>()); });

RIVULET_ALGORITHM(
    midrange_registration, "midrange", "none: an example",
    "Federated averaging by the middle of each element's changes.", {},
    [](const AlgorithmContext& context) -> StatusOr<Composition> {
      RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
      composition.aggregation.rule = "midrange";
      composition.aggregation.parts = {
          {.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
      return composition;
    },
    "w ← w + server.learning_rate · (min_k (w_k − w) + max_k (w_k − w)) / 2");

}  // namespace
}  // namespace rivulet
