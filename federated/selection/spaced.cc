// Selection with a minimum separation: two versions with one client's updates are at least `separation` apart. Noise
// without sampling relies on it (Choquette-Choo et al. 2023, arXiv:2306.08153, b-min-sep participation).
#include <algorithm>
#include <unordered_set>

#include "federated/selection/selector.h"

namespace rivulet {
namespace {

// The uniform order without recent participants. It may end early.
class Rested final : public Order {
 public:
  Rested(const CohortDraw& draw, int64_t separation) : uniform_(UniformPermutation(draw)) {
    for (const CohortDraw::Known& known : draw.known) {
      if (draw.round - known.participation.version < separation) resting_.insert(known.rank);
    }
  }

 private:
  std::optional<int64_t> Take() override {
    std::optional<int64_t> rank = uniform_.Next();
    while (rank && resting_.contains(*rank)) rank = uniform_.Next();
    return rank;
  }

  LazyPermutation uniform_;
  std::unordered_set<int64_t> resting_;
};

class Spaced final : public Selector {
 public:
  explicit Spaced(int64_t separation) : separation_(separation) {}
  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override {
    return std::make_unique<Rested>(draw, separation_);
  }

 private:
  const int64_t separation_;
};

Setting Separation() {
  Setting separation = Integer("separation", std::nullopt,
                               "Versions between two of one client's: with 4, a client in version 3 is in none before "
                               "version 7.")
                           .Between(1, 1e6);
  separation.example = "8";
  return separation;
}

RIVULET_SELECTOR(spaced_registration, "spaced",
                 "Uniform among rested clients: two versions of one client are at least `separation` apart (b-min-sep "
                 "participation, Choquette-Choo et al. 2023, arXiv:2306.08153).",
                 {Separation()}, [](const Settings& settings) -> std::unique_ptr<const Selector> {
                   return std::make_unique<Spaced>(settings.integer("separation"));
                 });

}  // namespace
}  // namespace rivulet
