#include "federated/selection/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/math.h"

namespace rivulet {
namespace {

constexpr uint32_t kKnownClocks = 1, kOtherClocks = 2;

// Each client has a clock with an exponentially distributed time whose rate is its weight, and the order is by these
// times (Efraimidis and Spirakis 2006). Clients of equal weight need no separate clocks: the next of n rings after a
// time of n times their rate, and is a uniformly random one of them.
class Weighted final : public Order {
 public:
  Weighted(const CohortDraw& draw, const std::vector<double>& weights, double other)
      : other_(other),
        others_(UniformPermutation(draw)),
        clocks_(draw.Stream(kOtherClocks)),
        left_(draw.members - std::ssize(draw.known)) {
    Draws draws = draw.Stream(kKnownClocks);
    for (size_t i = 0; i < draw.known.size(); ++i) {
      known_.push_back(draw.known[i].rank);
      ringing_.emplace_back(Ring(draws, weights[i]), draw.known[i].rank);
    }
    std::ranges::sort(ringing_);
    LetNextRing();
  }

 private:
  static double Ring(Draws& draws, double rate) {
    const double time = -math::Log(1 - draws.Uniform());
    return rate > 0 ? time / rate : std::numeric_limits<double>::infinity();
  }

  void LetNextRing() {
    now_ = left_ > 0 ? now_ + Ring(clocks_, other_ * static_cast<double>(left_)) : std::nan("");
    --left_;
  }

  std::optional<int64_t> Take() override {
    const bool others = !std::isnan(now_);
    if (next_ < ringing_.size() && !(others && now_ < ringing_[next_].first)) return ringing_[next_++].second;
    if (!others) return std::nullopt;
    LetNextRing();
    std::optional<int64_t> rank = others_.Next();
    while (rank && std::ranges::binary_search(known_, *rank)) rank = others_.Next();
    return rank;
  }

  const double other_;
  std::vector<int64_t> known_;                       // ascending, as in the draw
  std::vector<std::pair<double, int64_t>> ringing_;  // times of known clients, with their ranks
  size_t next_ = 0;
  LazyPermutation others_;
  Draws clocks_;
  int64_t left_;    // number of other clients left
  double now_ = 0;  // time of the next other client; NaN: none is left
};

}  // namespace

std::unique_ptr<Order> WeightedOrder(const CohortDraw& draw, const std::vector<double>& weights, double other) {
  const bool alike = std::ranges::all_of(weights, [&](double weight) { return weight == other; });
  if (alike) return UniformOrder(draw);
  return std::make_unique<Weighted>(draw, weights, other);
}

std::unique_ptr<Order> OrderByExamples(const CohortDraw& draw, double exponent) {
  std::vector<double> weights;
  for (const CohortDraw::Known& known : draw.known) {
    const auto examples = static_cast<double>(known.participation.examples);
    weights.push_back(exponent == 1 ? examples : math::Exp(exponent * math::Log(examples)));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  return WeightedOrder(draw, weights, weights.empty() ? 1 : sum / static_cast<double>(weights.size()));
}

}  // namespace rivulet
