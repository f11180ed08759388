// Power-of-choice (Cho et al. 2020, arXiv:2010.01243, section 3, its variant rpow-d): draws d candidates in proportion
// to their data, and selects those with the highest loss in their last training. Clients that have not trained yet
// count as the worst, so that every client is selected once. If d is at most the cohort's size, the cohort equals that
// of "weighted".
#include <algorithm>
#include <limits>

#include "federated/selection/weighted_order.h"

namespace rivulet {
namespace {

class PowerOfChoice final : public Selector {
 public:
  explicit PowerOfChoice(int64_t candidates) : candidates_(candidates) {}

  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override {
    struct Candidate {
      int64_t rank;
      double loss;
    };
    const int64_t most = candidates_ > 0 ? candidates_ : 2 * draw.wanted;
    std::vector<Candidate> candidates;
    const std::unique_ptr<Order> by_data = OrderByExamples(draw, 1);
    while (std::ssize(candidates) < most) {
      const std::optional<int64_t> rank = by_data->Next();
      if (!rank) break;
      const auto known = std::ranges::lower_bound(draw.known, *rank, {}, &CohortDraw::Known::rank);
      const bool told = known != draw.known.end() && known->rank == *rank;
      candidates.push_back({*rank, told ? known->participation.loss : std::numeric_limits<double>::infinity()});
    }
    if (std::ssize(candidates) > draw.wanted) {
      std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::loss);
    }
    std::vector<int64_t> first;
    for (const Candidate& candidate : candidates) first.push_back(candidate.rank);
    return OrderBeginning(draw, std::move(first));
  }

 private:
  const int64_t candidates_;
};

Setting Candidates() {
  Setting candidates =
      Integer("candidates", 0,
              "Candidates drawn, of which those with the highest loss are selected; 0: twice the wanted number.")
          .Between(0, 1e8);
  candidates.example = "30";
  return candidates;
}

RIVULET_SELECTOR(power_of_choice_registration, "power_of_choice",
                 "The candidates are `candidates` clients, drawn by their examples as in `weighted`. Those with the "
                 "highest last training loss are selected, after those that have not trained yet (Cho et al. 2020, "
                 "arXiv:2010.01243, rpow-d, which costs no communication).",
                 {Candidates()}, [](const Settings& settings) -> std::unique_ptr<const Selector> {
                   return std::make_unique<PowerOfChoice>(settings.integer("candidates"));
                 });

}  // namespace
}  // namespace rivulet
