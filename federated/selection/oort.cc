// Oort (Lai et al. 2021, arXiv:2010.06081, algorithm 1): most of a cohort are clients of high utility, and the rest are
// clients that have not taken part yet. With B_i the examples of client i, L_i the version with its newest update and R
// the round, its utility is
//
//   U_i = |B_i| · loss_i, limited to the `clip` quantile of all, + sqrt(0.1 · ln R / L_i) of their range
//   U_i ← U_i · (T / t_i)^slow_penalty if its task took t_i > T
//
// The paper uses the root of the mean squared loss of single examples; here a client sends
// only its mean loss. T is the `fast_enough` quantile of all t_i; the paper's pacer changes
// it. In simulations t_i is planned, so that cohorts depend on no clock; otherwise it is
// measured. slow_penalty is therefore 0 by default: then deployed and simulated runs have
// the same cohorts. Clients above `cutoff` times the utility that just fills the places are
// drawn in proportion to it. The share of places for new clients starts at `exploration`
// and falls by `decay` a round. Clients in `most_versions` versions have a utility of 0.
#include <algorithm>
#include <cmath>

#include "engine/base/math.h"
#include "federated/selection/weighted_order.h"

namespace rivulet {
namespace {

constexpr double kUncertainty = 0.1;

struct OortSettings {
  double exploration, decay, least_exploration, clip, cutoff, slow_penalty, fast_enough;
  int64_t most_versions;
};

class Oort final : public Selector {
 public:
  explicit Oort(const OortSettings& settings) : settings_(settings) {}

  std::unique_ptr<Order> OrderOf(const CohortDraw& draw) const override {
    double share = settings_.exploration;
    for (int64_t round = 1; round < draw.round && share > settings_.least_exploration; ++round)
      share *= settings_.decay;
    share = std::max(share, settings_.least_exploration);
    const auto fresh = static_cast<int64_t>(std::llround(share * static_cast<double>(draw.wanted)));
    const int64_t unknown = draw.members - std::ssize(draw.known);
    const int64_t places = draw.wanted - std::min(fresh, unknown);
    std::vector<int64_t> first = Exploited(draw, places);
    // Then new clients in the uniform order, before the other known ones.
    std::vector<int64_t> known;
    for (const CohortDraw::Known& one : draw.known) known.push_back(one.rank);
    LazyPermutation ranks = UniformPermutation(draw);
    for (int64_t wanted = draw.wanted - std::ssize(first); wanted > 0;) {
      const std::optional<int64_t> rank = ranks.Next();
      if (!rank) break;
      if (std::ranges::binary_search(known, *rank)) continue;
      first.push_back(*rank);
      --wanted;
    }
    return OrderBeginning(draw, std::move(first));
  }

 private:
  // The `fast_enough` quantile of the durations of tasks; 0: no durations are known.
  double FastEnough(const CohortDraw& draw) const {
    std::vector<double> durations;
    for (const CohortDraw::Known& known : draw.known) {
      if (known.participation.duration > 0) durations.push_back(known.participation.duration);
    }
    if (durations.empty()) return 0;
    std::ranges::sort(durations);
    return durations[static_cast<size_t>(settings_.fast_enough * static_cast<double>(durations.size() - 1))];
  }

  // One utility for each of draw.known; 0 for clients that have been in enough versions.
  std::vector<double> Utilities(const CohortDraw& draw) const {
    std::vector<double> utilities, sorted;
    for (const CohortDraw::Known& known : draw.known) {
      const Participation& of = known.participation;
      utilities.push_back(std::max(0.0, static_cast<double>(of.examples) * of.loss));
    }
    if (utilities.empty()) return utilities;
    sorted = utilities;
    std::ranges::sort(sorted);
    const double most = sorted[static_cast<size_t>(settings_.clip * static_cast<double>(sorted.size() - 1))];
    const double range = std::max(most - sorted.front(), 1e-6);
    const double fast_enough = settings_.slow_penalty > 0 ? FastEnough(draw) : 0;
    for (size_t i = 0; i < utilities.size(); ++i) {
      const Participation& of = draw.known[i].participation;
      const double uncertain =
          kUncertainty * math::Log(static_cast<double>(draw.round)) / static_cast<double>(of.version);
      utilities[i] = (std::min(utilities[i], most) - sorted.front()) / range + std::sqrt(uncertain);
      if (fast_enough > 0 && of.duration > fast_enough) {
        utilities[i] *= math::Exp(settings_.slow_penalty * math::Log(fast_enough / of.duration));
      }
      if (settings_.most_versions > 0 && of.versions >= settings_.most_versions) utilities[i] = 0;
    }
    return utilities;
  }

  // The ranks of at most `places` clients drawn by utility.
  std::vector<int64_t> Exploited(const CohortDraw& draw, int64_t places) const {
    std::vector<double> utilities = Utilities(draw);
    places = std::min<int64_t>(places, std::ranges::count_if(utilities, [](double utility) { return utility > 0; }));
    if (places <= 0) return {};
    std::vector<double> sorted = utilities;
    std::ranges::nth_element(sorted, sorted.begin() + (places - 1), std::ranges::greater());
    const double least = settings_.cutoff * sorted[static_cast<size_t>(places - 1)];
    for (double& utility : utilities) utility = utility >= least ? utility : 0;
    // Known clients only: all others have the weight 0.
    const std::unique_ptr<Order> order = WeightedOrder(draw, utilities, 0);
    std::vector<int64_t> ranks;
    while (std::ssize(ranks) < places) ranks.push_back(*order->Next());
    return ranks;
  }

  const OortSettings settings_;
};

Setting Share(const char* name, double standard, const char* example, const char* doc) {
  Setting share = Float(name, standard, doc).Between(0, 1);
  share.example = example;
  return share;
}

std::vector<Setting> Table() {
  Setting most =
      Integer("most_versions", 0, "Versions after which a client makes room for others; 0: never.").Between(0, 1e9);
  most.example = "10";
  Setting penalty = Float("slow_penalty", 0,
                          "Exponent of the penalty for slow clients (the paper's alpha, there 2). A task that took k "
                          "times as long as `fast_enough` divides its client's utility by k to this power. 0: no "
                          "penalty. In a deployed run, measured time then affects the draw.")
                        .Between(0, 16);
  penalty.example = "2.0";
  return {
      Share("exploration", 0.9, "0.5", "Share of the first cohort that is for clients that have not taken part yet."),
      Share("decay", 0.98, "0.9", "Factor of that share after a round."),
      Share("least_exploration", 0.2, "0.1", "Below which that share does not fall."),
      Share("clip", 0.95, "1.0", "Quantile of the utilities, above which they count as that."),
      Share("cutoff", 0.95, "0.5", "Share of the utility that just fills the places, from which on clients are drawn."),
      std::move(penalty),
      Share("fast_enough", 0.8, "0.5", "Quantile of how long tasks took, up to which none is slow."),
      std::move(most)};
}

RIVULET_SELECTOR(
    oort_registration, "oort",
    "Most of a cohort are the clients with the highest product of examples and last training loss, with a bonus for "
    "those that were long absent. The rest have not taken part yet (Lai et al. 2021, arXiv:2010.06081, algorithm 1, "
    "with mean losses in the place of root mean squares).",
    Table(), [](const Settings& settings) -> std::unique_ptr<const Selector> {
      return std::make_unique<Oort>(OortSettings{settings.number("exploration"), settings.number("decay"),
                                                 settings.number("least_exploration"), settings.number("clip"),
                                                 settings.number("cutoff"), settings.number("slow_penalty"),
                                                 settings.number("fast_enough"), settings.integer("most_versions")});
    });

}  // namespace
}  // namespace rivulet
