// Selection in turns: whoever's update has been in no version for longest is asked first, so that nobody takes part
// again before all others have, and two updates of one client are as many versions apart as there are members for. This
// separation is what tree aggregation without sampling rests on (Kairouz et al. 2021, arXiv:2103.00039, section 3).
#include <algorithm>
#include <unordered_map>

#include "federated/selection/selector.h"

namespace rivulet {
namespace {

// Those who have never taken part, in the uniform order, and then the others, longest ago first and in the uniform
// order where that is alike.
class Turns final : public Order {
 public:
  explicit Turns(const CohortDraw& draw) : uniform_(UniformPermutation(draw)) {
    for (const CohortDraw::Known& known : draw.known) versions_.emplace(known.rank, known.participation.version);
  }

 private:
  // The uniform order is gone through once: what of it was passed over waits, and is sorted when nobody else is left.
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
  std::unordered_map<int64_t, int64_t> versions_;  // of the newest update, by rank
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
