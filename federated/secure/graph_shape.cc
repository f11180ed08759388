#include "federated/secure/graph_shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rivulet::secure {
namespace {

// Below, a complete graph costs little. It bears a third of drop-outs, whatever is stated, and protects the largest
// sum.
constexpr int64_t kLeastSparse = 100;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// Logarithms of factorials to the base 2, added up one by one: lgamma() differs between C libraries, and is not
// thread-safe in some.
class Factorials {
 public:
  explicit Factorials(int64_t most) : log2_(static_cast<size_t>(most) + 1) {
    for (size_t i = 1; i < log2_.size(); ++i) log2_[i] = log2_[i - 1] + std::log2(static_cast<double>(i));
  }
  double Choose(int64_t n, int64_t k) const {
    if (k < 0 || k > n) return kImpossible;
    return log2_[static_cast<size_t>(n)] - log2_[static_cast<size_t>(k)] - log2_[static_cast<size_t>(n - k)];
  }

 private:
  std::vector<double> log2_;
};

// log2 of P[from <= X <= to], X of `marked` among `drawn` of `all` without replacement.
double Log2Between(const Factorials& factorials, int64_t all, int64_t marked, int64_t drawn, int64_t from, int64_t to) {
  std::vector<double> terms;
  const double ways = factorials.Choose(all, drawn);
  for (int64_t x = std::max<int64_t>(from, 0); x <= std::min({to, marked, drawn}); ++x) {
    const double term = factorials.Choose(marked, x) + factorials.Choose(all - marked, drawn - x) - ways;
    if (term > kImpossible) terms.push_back(term);
  }
  if (terms.empty()) return kImpossible;
  const double largest = *std::max_element(terms.begin(), terms.end());
  std::sort(terms.begin(), terms.end());  // small ones first, so that none is lost
  double sum = 0;
  for (const double term : terms) sum += std::exp2(term - largest);
  return largest + std::log2(sum);
}

double ManyColluding(const Factorials& factorials, const GraphNeeds& needs, int neighbours, int64_t least) {
  return std::log2(static_cast<double>(needs.members)) +
         Log2Between(factorials, needs.members - 1, needs.colluding, neighbours, least, neighbours);
}

double FewStaying(const Factorials& factorials, const GraphNeeds& needs, int neighbours, int threshold) {
  return std::log2(static_cast<double>(needs.members)) +
         Log2Between(factorials, needs.members - 1, needs.members - 1 - needs.dropped, neighbours, 0, threshold - 1);
}

// The least count that at most 2^-privacy_bits of all cohorts have a client reach.
int64_t FewestTooMany(const Factorials& factorials, const GraphNeeds& needs, int neighbours) {
  int64_t low = 0, high = std::min<int64_t>(needs.colluding, neighbours) + 1;  // `high` is never reached
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ManyColluding(factorials, needs, neighbours, middle) < -needs.privacy_bits) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

StatusOr<GraphShape> CompleteGraph(const GraphNeeds& needs) {
  const int64_t n = needs.members, threshold = 2 * n / 3 + 1;
  if (needs.colluding >= 2 * threshold - n) {
    return FailedPrecondition(
        "{} of {} members may collude, and a cohort of this size bears {}; lower privacy.max_colluding or invite more "
        "clients",
        needs.colluding, n, 2 * threshold - n - 1);
  }
  if (n - needs.dropped < threshold) {
    return FailedPrecondition(
        "{} of {} members may drop out, and a cohort of this size bears {}; lower the stated drop-out or invite more "
        "clients",
        needs.dropped, n, n - threshold);
  }
  const GraphShape shape{static_cast<int>(n - 1), static_cast<int>(threshold), true};
  if (SmallestHonestSum(needs, shape) < needs.least_sum) {
    return FailedPrecondition(
        "a cohort of {} with {} colluding members protects sums of {} honest clients, and the plan asks for {}; invite "
        "more clients",
        n, needs.colluding, SmallestHonestSum(needs, shape), needs.least_sum);
  }
  return shape;
}

// α of a graph in which a client has fewer than `too_many` colluding neighbours.
int64_t SmallestSum(const GraphNeeds& needs, const GraphShape& shape, int64_t too_many) {
  const double n = static_cast<double>(needs.members), t = shape.threshold, k = shape.neighbours;
  const double colluding = static_cast<double>(needs.colluding), eigenvalue = EigenvalueBound(shape);
  // Each member of such a set has that many honest neighbours in it.
  const double least_inside = t - static_cast<double>(too_many - 1);
  for (double s = 1; s < n - colluding; ++s) {
    const double inside = k * s / n + eigenvalue * (1 - s / n);
    if (s < least_inside + 1 || inside < least_inside) continue;
    const double with = s + colluding;
    const double towards = k * with / n + eigenvalue * std::sqrt(with / s * (1 - s / n) * (1 - with / n));
    if (towards >= t) return static_cast<int64_t>(s);
  }
  return std::max<int64_t>(1, needs.members - needs.colluding);
}

}  // namespace

StatusOr<GraphShape> ChooseGraph(const GraphNeeds& needs) {
  if (needs.members < 3) {
    return FailedPrecondition(
        "a cohort of {} is too small to hide a member; secure aggregation needs 3 members or more", needs.members);
  }
  if (needs.colluding < 0 || needs.dropped < 0 || needs.colluding >= needs.members || needs.dropped >= needs.members) {
    return FailedPrecondition("{} colluding and {} dropped of {} members leave no member", needs.colluding,
                              needs.dropped, needs.members);
  }
  const Factorials factorials(needs.members);
  for (int k = 2; needs.members >= kLeastSparse && 2 * k <= needs.members - 1; k += 2) {
    const int64_t too_many = FewestTooMany(factorials, needs, k);
    for (auto threshold = static_cast<int>((too_many + k + 1) / 2); threshold <= k; ++threshold) {
      if (FewStaying(factorials, needs, k, threshold) >= -needs.correctness_bits) break;  // nor with a higher one
      const GraphShape shape{k, threshold, false};
      if (needs.least_sum <= 1 || SmallestSum(needs, shape, too_many) >= needs.least_sum) return shape;
    }
  }
  return CompleteGraph(needs);
}

double Log2ManyColluding(const GraphNeeds& needs, int neighbours, int64_t least) {
  return ManyColluding(Factorials(needs.members), needs, neighbours, least);
}

double Log2FewStaying(const GraphNeeds& needs, int neighbours, int threshold) {
  return FewStaying(Factorials(needs.members), needs, neighbours, threshold);
}

double EigenvalueBound(const GraphShape& shape) {
  return shape.complete ? 1 : 2.2 * std::sqrt(static_cast<double>(shape.neighbours - 1));
}

int64_t SmallestHonestSum(const GraphNeeds& needs, const GraphShape& shape) {
  // Of the t shares of a client's seed, all but those of the colluding come from clients of the sum.
  if (shape.complete) return std::max<int64_t>(1, shape.threshold - needs.colluding);
  return SmallestSum(needs, shape, FewestTooMany(Factorials(needs.members), needs, shape.neighbours));
}

}  // namespace rivulet::secure
