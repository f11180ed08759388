#include <algorithm>
#include <cmath>

#include "federated/privacy/accountant.h"

namespace rivulet::privacy {
namespace {

constexpr double kMostFactor = 1e6, kLeastFactor = 1e-3;
constexpr double kRelativeError = 1e-6;
constexpr int64_t kMostSearched = int64_t{1} << 40;

Status CheckEpsilon(double epsilon) {
  if (epsilon > 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return InvalidArgument("epsilon is {}; it must be a finite number above 0", epsilon);
}

// FAILED_PRECONDITION is how a discrete law says that its noise is too coarse for a bound: more noise is needed.
StatusOr<double> EpsilonOrTooMuch(const Composition& composition, double delta, Accountant accountant) {
  const StatusOr<Spend> spend = EpsilonOf(composition, delta, accountant);
  if (absl::IsFailedPrecondition(spend.status())) return HUGE_VAL;
  RIVULET_RETURN_IF_ERROR(spend.status());
  return spend->value;
}

}  // namespace

StatusOr<double> LeastNoise(const Composition& composition, double epsilon, double delta, Accountant accountant) {
  RIVULET_RETURN_IF_ERROR(CheckEpsilon(epsilon));
  const auto excess = [&](double factor) -> StatusOr<double> {  // of log epsilon; above 0: too little noise
    RIVULET_ASSIGN_OR_RETURN(const double spent, EpsilonOrTooMuch(composition.Scaled(factor), delta, accountant));
    return std::log(std::max(spent, 1e-300) / epsilon);
  };
  double low = 1, high = 1;
  RIVULET_ASSIGN_OR_RETURN(double at_high, excess(high));
  double at_low = at_high;
  while (at_high > 0) {
    if (high >= kMostFactor) {
      return OutOfRange("no noise up to {} times the sensitivity reduces epsilon to {}", kMostFactor, epsilon);
    }
    low = high, at_low = at_high;
    high *= 2;
    RIVULET_ASSIGN_OR_RETURN(at_high, excess(high));
  }
  while (at_low <= 0) {
    if (low <= kLeastFactor) return low;
    high = low, at_high = at_low;
    low /= 2;
    RIVULET_ASSIGN_OR_RETURN(at_low, excess(low));
  }
  // In logarithms the relation is close to linear: false position, and halving where that barely moves (Illinois).
  double weight_low = at_low, weight_high = at_high;
  for (int i = 0; i < 100 && high - low > kRelativeError * high; ++i) {
    double share = std::isfinite(weight_low) ? weight_low / (weight_low - weight_high) : 0.5;
    if (i % 8 == 7) share = 0.5;
    double middle = std::exp(std::log(low) + share * (std::log(high) - std::log(low)));
    // Not at an end: a third of the error that is allowed further in, so that both ends close in.
    const double inset = kRelativeError * high / 3;
    middle = std::clamp(middle, low + inset, high - inset);
    RIVULET_ASSIGN_OR_RETURN(const double at_middle, excess(middle));
    if (at_middle > 0) {
      low = middle, weight_low = at_middle;
      weight_high /= 2;
    } else {
      high = middle, weight_high = at_middle;
      weight_low /= 2;
    }
  }
  return high;
}

StatusOr<int64_t> MostRounds(const Composition& composition, double epsilon, double delta, Accountant accountant) {
  RIVULET_RETURN_IF_ERROR(CheckEpsilon(epsilon));
  if (composition.rounds.empty()) return InvalidArgument("no kind of round is given whose number could be searched");
  const auto fits = [&](int64_t count) -> StatusOr<bool> {
    Composition tried = composition;
    tried.rounds.back().count = count;
    RIVULET_ASSIGN_OR_RETURN(const double spent, EpsilonOrTooMuch(tried, delta, accountant));
    return spent <= epsilon;
  };
  RIVULET_ASSIGN_OR_RETURN(const bool others_fit, fits(0));
  if (!others_fit) return OutOfRange("the other rounds alone have an epsilon above {}", epsilon);
  int64_t low = 0, high = 1;
  while (true) {
    RIVULET_ASSIGN_OR_RETURN(const bool fit, fits(high));
    if (!fit) break;
    low = high;
    if (high > kMostSearched / 4) {
      return OutOfRange("more than {} rounds stay below an epsilon of {}; nothing limits them", high, epsilon);
    }
    high *= 4;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    RIVULET_ASSIGN_OR_RETURN(const bool fit, fits(middle));
    (fit ? low : high) = middle;
  }
  return low;
}

}  // namespace rivulet::privacy
