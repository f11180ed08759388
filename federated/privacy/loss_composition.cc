#include "federated/privacy/loss_composition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "federated/privacy/loss_grid.h"
#include "federated/privacy/wrapped_convolution.h"

namespace rivulet::privacy {
namespace {

// Mass under the tilted law that may wrap around, as far as the choice of the window goes; what does is bounded anew.
constexpr double kWrapped = 1e-13;
// Steps a deviation of one round's loss. Moving losses to multiples adds a sixth of a step's square to each round's
// variance, here 4e-5 of it.
constexpr double kStepsPerDeviation = 64;
constexpr int64_t kLeastSize = 1 << 14, kMostSize = 1 << 21;
// Mass under the tilted law by which rounding may be off: a transform's outputs lose about log2(size) units in the last
// place of their root mean square, and a power as many times more as it has factors.
constexpr double kRounding = 0x1p-44, kRoundingPerRound = 0x1p-52;
// Tilted where delta is small, so that what may be off (in proportion to the tilted law's mass) stays far below it; no
// further, because tilts of heavy tails move the mass to losses that are rarer than delta.
constexpr double kConditioning = 1e9;
// Cells of a single round's grid.
constexpr double kMostCells = 1 << 19;

}  // namespace

LossComposition::LossComposition(std::vector<ComposedPair> rounds) : rounds_(std::move(rounds)) {
  std::erase_if(rounds_, [](const ComposedPair& one) { return one.count == 0; });
  for (const ComposedPair& one : rounds_) nodes_.push_back({LossNodes(one.pair), one.count});
}

LossComposition::Moments LossComposition::MomentsAt(double tilt) const {
  Moments total;
  double variance = 0;
  for (const Nodes& one : nodes_) {
    const double log = LogMoment(one.nodes, tilt);
    double mean = 0, square = 0;
    for (const LossAtom& node : one.nodes) {
      mean += node.mass * std::exp(tilt * node.loss - log) * node.loss;
    }
    for (const LossAtom& node : one.nodes) {
      const double apart = node.loss - mean;
      square += node.mass * std::exp(tilt * node.loss - log) * apart * apart;
    }
    const auto count = static_cast<double>(one.count);
    total.log += count * log;
    total.mean += count * mean;
    variance += count * square;
  }
  total.deviation = std::sqrt(variance);
  return total;
}

double LossComposition::LogMomentAt(double tilt) const {
  double log = 0;
  for (const Nodes& one : nodes_) log += static_cast<double>(one.count) * LogMoment(one.nodes, tilt);
  return log;
}

template <typename F>
double LossComposition::FindTilt(F reached) const {
  if (reached(0.0, MomentsAt(0))) return 0;
  // Losses with a largest value (pure differential privacy) have no tilt that reaches beyond it; the law only gets
  // narrower, and the middle need not be hit.
  const double narrow = MomentsAt(0).deviation / 16;
  double low = 0, high = 1e-3;
  while (true) {
    const Moments moments = MomentsAt(high);
    if (moments.deviation < narrow) break;
    if (reached(high, moments)) break;
    low = high;
    high *= 2;
    if (high > 1e9) return low;
  }
  for (int i = 0; i < 40 && high - low > 1e-3 * high; ++i) {
    const double middle = low + (high - low) / 2;
    const Moments moments = MomentsAt(middle);
    (moments.deviation < narrow || reached(middle, moments) ? high : low) = middle;
  }
  return low;
}

// The tilt of the Chernoff bound for delta, at which that bound's epsilon is the tilted law's mean.
double LossComposition::TiltForDelta(double delta) const {
  if (delta >= 1) return 0;
  return FindTilt(
      [&](double tilt, const Moments& moments) { return tilt * moments.mean - moments.log >= -std::log(delta); });
}

// log of the Chernoff bound for epsilon.
double LossComposition::LogChernoff(double epsilon) const {
  const double tilt = FindTilt([&](double, const Moments& moments) { return moments.mean >= epsilon; });
  return LogMomentAt(tilt) - tilt * epsilon;
}

// The composed loss under a tilt, in a window: everything that is asked of one grid.
class LossComposition::Tilted {
 public:
  // `negligible`: what a delta may be off by because rounds' losses are cut off.
  Tilted(const LossComposition& whole, double tilt, double negligible)
      : whole_(whole), tilt_(tilt), moments_(whole.MomentsAt(tilt)) {
    const double deviation = std::max(moments_.deviation, 1e-12);
    // Where Chernoff's bound of the tilted law's own tails falls below kWrapped.
    const auto find_edge = [&](double sign) {
      Edge best{.loss = sign * HUGE_VAL};
      const double usual = std::sqrt(2 * -std::log(kWrapped)) / deviation;
      // Heavy tails have their best far below that of a normal law.
      for (double factor = 0x1p-16; factor <= 2; factor *= 1.41421356237) {
        const double further = sign * factor * usual;
        const double log = whole.LogMomentAt(tilt + further) - moments_.log;
        const double loss = (log - std::log(kWrapped)) / further;
        if (sign * loss < sign * best.loss) best = {.loss = loss, .further_tilt = further};
      }
      return best;
    };
    low_ = find_edge(-1), high_ = find_edge(1);
    double rounds = 0;
    for (const Nodes& one : whole.nodes_) rounds += static_cast<double>(one.count);
    const double wanted = deviation / (kStepsPerDeviation * std::sqrt(rounds));
    const double size = std::ceil((high_.loss - low_.loss) / wanted);
    size_ = size >= static_cast<double>(kMostSize)
                ? kMostSize
                : std::max(kLeastSize, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size))));
    step_ = (high_.loss - low_.loss) / static_cast<double>(size_ - 2);
    std::vector<LossRange> ranges;
    for (const Nodes& one : whole.nodes_) {
      ranges.push_back(RangeOf(one.nodes, negligible / rounds));
      step_ = std::max(step_, (ranges.back().high - ranges.back().low) / kMostCells);
    }
    first_ = static_cast<int64_t>(std::floor(((low_.loss + high_.loss) / 2) / step_)) - size_ / 2;
    rounding_ = kRounding + rounds * kRoundingPerRound;
    for (size_t i = 0; i < ranges.size(); ++i) {
      grids_.push_back(DiscretiseLoss(whole.rounds_[i].pair, ranges[i], step_));
    }
  }

  // The curve delta(epsilon) of the composed grids, from above or from below.
  class Curve {
   public:
    Curve(const Tilted& tilted, bool upper) : tilted_(tilted), upper_(upper) {
      WrappedConvolution convolution(tilted.size_, tilted.step_, tilted.first_, tilted.tilt_);
      for (size_t i = 0; i < tilted.grids_.size(); ++i) {
        const int64_t count = tilted.whole_.rounds_[i].count;
        const LossGrid& grid = upper ? tilted.grids_[i].upper : tilted.grids_[i].lower;
        convolution.Add(grid, count);
        infinite_ += static_cast<double>(count) * std::log1p(-grid.infinite);
      }
      infinite_ = -std::expm1(infinite_);
      log_moment_ = convolution.log_moment();
      error_ = convolution.MassBeyond(tilted.high_.loss, tilted.high_.further_tilt) +
               convolution.MassBeyond(tilted.low_.loss, tilted.low_.further_tilt) + tilted.rounding_;
      const std::vector<double> masses = std::move(convolution).Masses();
      // tail_[k] = the sum over j > k of mass_j e^(-tilt (j - k) step) (1 - e^(-(j - k) step)), from two sums that each
      // are one step apart.
      tail_.resize(masses.size());
      const double decay = std::exp(-tilted.tilt_ * tilted.step_), decay_more = decay * std::exp(-tilted.step_);
      double sum = 0, sum_more = 0;
      for (size_t k = masses.size(); k-- > 0;) {
        tail_[k] = sum - sum_more;
        sum = decay * (sum + masses[k]);
        sum_more = decay_more * (sum_more + masses[k]);
      }
      below_ = sum, below_more_ = sum_more;
    }

    // What may be off at `epsilon`.
    double ErrorAt(double epsilon) const {
      return std::exp(log_moment_ - tilted_.tilt_ * epsilon) * error_ + infinite_;
    }

    // At the loss (first + k) * step; k may lie below the window.
    double At(int64_t k) const {
      const double loss = static_cast<double>(tilted_.first_ + k) * tilted_.step_;
      double tail = 0;
      if (k >= static_cast<int64_t>(tail_.size())) {
        tail = 0;
      } else if (k >= 0) {
        tail = tail_[static_cast<size_t>(k)];
      } else {  // below_ stands at k = -1
        const double down = static_cast<double>(-1 - k) * tilted_.step_;
        tail = below_ * std::exp(-tilted_.tilt_ * down) - below_more_ * std::exp(-(tilted_.tilt_ + 1) * down);
      }
      const double scale = std::exp(log_moment_ - tilted_.tilt_ * loss);
      if (!upper_) return std::max(0.0, scale * (tail - error_));
      return std::min(1.0, scale * (tail + error_) + infinite_);
    }

    // Between grid points delta is linear in e^epsilon, up to the error, whose chord is on the safe side.
    double Delta(double epsilon) const {
      const double place = epsilon / tilted_.step_ - static_cast<double>(tilted_.first_);
      const auto k = static_cast<int64_t>(std::floor(place));
      const double share = std::expm1((place - static_cast<double>(k)) * tilted_.step_) / std::expm1(tilted_.step_);
      return At(k) + share * (At(k + 1) - At(k));
    }

    // The least epsilon from which on the upper curve is at most `delta`; the largest up to which the lower one is
    // above it, as far as the window shows. `inside`: it is in the window, where the bounds are close.
    struct Found {
      double epsilon = 0;
      bool inside = true;
    };
    Found Epsilon(double delta) const {
      const int64_t zero = -tilted_.first_;
      if (upper_ && At(zero) <= delta) return {.epsilon = 0, .inside = zero >= 0};
      int64_t low = zero, high = std::max(zero, int64_t{0}) + tilted_.size_;
      if (upper_) {  // falls everywhere
        while (At(high) > delta) {
          if (infinite_ >= delta || high > (int64_t{1} << 50)) return {.epsilon = HUGE_VAL};
          low = high;
          high += high + tilted_.size_;
        }
      } else {  // falls as long as its error does not outweigh it: from the top of the window to the first place above
        const int64_t stride = tilted_.size_ / 256, end = std::max(zero, int64_t{0});
        for (high = tilted_.size_; high > end; high = low) {
          low = std::max(high - stride, end);
          if (At(low) > delta) break;
        }
        if (high <= end) return {};
      }
      while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (At(middle) > delta ? low : high) = middle;
      }
      const double above = At(low), below = At(high);
      const double share = above > below ? (above - delta) / (above - below) : 1;
      const double loss = static_cast<double>(tilted_.first_ + low) * tilted_.step_;
      return {.epsilon = std::max(0.0, loss + std::log1p(share * std::expm1(tilted_.step_))), .inside = low >= 0};
    }

   private:
    const Tilted& tilted_;
    const bool upper_;
    double log_moment_ = 0, error_ = 0, infinite_ = 0, below_ = 0, below_more_ = 0;
    std::vector<double> tail_;
  };

 private:
  const LossComposition& whole_;
  const double tilt_;
  const Moments moments_;
  // Beyond these lies next to nothing; the further tilt is the one that shows it.
  struct Edge {
    double loss = 0, further_tilt = 0;
  };
  Edge low_, high_;
  double step_ = 0, rounding_ = 0;
  int64_t size_ = 0, first_ = 0;
  std::vector<LossGrids> grids_;
};

namespace {

// Bounds of several attempts hold together.
void Tighten(Bracket& best, double upper, double lower) {
  best.upper = std::min(best.upper, upper);
  best.lower = std::max(best.lower, lower);
}

constexpr int kAttempts = 4;
// What may be off, in parts of the answer, and what is cut off.
constexpr double kFine = 1e-4, kCutOff = 1e-6;

}  // namespace

Bracket LossComposition::Epsilon(double delta) const {
  Bracket best{.upper = rounds_.empty() ? 0 : HUGE_VAL};
  double conditioning = kConditioning;
  for (int attempt = 0; attempt < kAttempts && !rounds_.empty(); ++attempt) {
    const double tilt = TiltForDelta(std::min(1.0, delta * conditioning));
    const Tilted tilted(*this, tilt, delta * kCutOff);
    const Tilted::Curve upper(tilted, true);
    const Tilted::Curve::Found found = upper.Epsilon(delta);
    Tighten(best, found.epsilon, Tilted::Curve(tilted, false).Epsilon(delta).epsilon);
    if (found.inside && upper.ErrorAt(found.epsilon) <= kFine * delta) break;
    // Far from the window: nearer to no tilt. Too much off: nearer to Chernoff's.
    conditioning *= found.inside ? 1e-3 : 1e3;
    if (tilt == 0 && !found.inside) break;
  }
  return best;
}

Bracket LossComposition::Delta(double epsilon) const {
  if (rounds_.empty()) return {};
  Bracket best{.upper = 1};
  double expected = std::exp(LogChernoff(epsilon)), conditioning = kConditioning;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Tilted tilted(*this, TiltForDelta(std::min(1.0, expected * conditioning)), expected * kCutOff);
    const Tilted::Curve upper(tilted, true);
    Tighten(best, upper.Delta(epsilon), Tilted::Curve(tilted, false).Delta(epsilon));
    if (upper.ErrorAt(epsilon) <= kFine * best.upper) break;
    // Chernoff's bound may be far above: next by what was found, and more tilted where that is not enough.
    if (best.upper < expected * 0.1) {
      expected = best.upper;
    } else {
      conditioning *= 1e-3;
    }
  }
  return best;
}

}  // namespace rivulet::privacy
