// Selection in turns: clients whose latest update is oldest come first. No client takes part again before all others
// have, so two updates of one client are as many versions apart as the population allows. Tree aggregation without
// sampling relies on this separation (Kairouz et al. 2021, arXiv:2103.00039, section 3).
#include <algorithm>
#include <unordered_map>

#include "federated/selection/selector.h"

namespace rivulet {
namespace {

// Clients that have never taken part, in the uniform order; then the others, the least recent first, with ties in the
// uniform order.
class Turns final : public Order {
 public:
  explicit Turns(const CohortDraw& draw) : uniform_(UniformPermutation(draw)) {
    for (const CohortDraw::Known& known : draw.known) versions_.emplace(known.rank, known.participation.version);
  }

 private:
  // Traverses the uniform order once; clients that were passed over are queued and sorted when it is exhausted.
  std::optional<int64_t> Take() override {
    while (const std::optional<int64_t> rank = uniform_.Next()) {
      const auto known = versions_.find(*rank);
      if (known == versions_.end()) return rank;
      waiting_.push_back({known->second, *rank});
      sorted_ = false;
    }
    if (!sorted_) std::ranges::stable_sort(waiting_, {}, &Waiting::version);
    sorted_ = true;
    return next_ < waiting_.size() ? std::optional(waiting_[next_++].rank) : std::nullopt;
  }

  struct Waiting {
    int64_t version, rank;
  };
  LazyPermutation uniform_;
  std::unordered_map<int64_t, int64_t> versions_;  // version of the newest update, by rank
  std::vector<Waiting> waiting_;
  bool sorted_ = true;
  size_t next_ = 0;
};

class RoundRobin final : public Selector {
 public:
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override { return std::make_unique<Turns>(draw); }
};

RIVULET_SELECTOR(
    round_robin_registration, "round_robin",
    "Clients take part in turns. The one that took part least recently is selected first, so that no client repeats "
    "before all others took part (the separation of Kairouz et al. 2021, arXiv:2103.00039, section 3).",
    {}, [](const Settings&) -> std::unique_ptr<const Selector> { return std::make_unique<RoundRobin>(); });

}  // namespace
}  // namespace rivulet
