#include "federated/privacy/audit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "federated/privacy/gaussian.h"

namespace rivulet::privacy {
namespace {

struct Normal {
  double mean = 0, deviation = 1;
  // The mass of [low, high].
  double Within(double low, double high) const {
    const double a = (low - mean) / deviation, b = (high - mean) / deviation;
    // By the tail that is small, so that its digits stay.
    return a > 0 ? NormalCdf(-a) - NormalCdf(-b) : NormalCdf(b) - NormalCdf(a);
  }
};

// The integral of (p - e^epsilon q) over where it is positive: where a parabola in x is above epsilon.
double HockeyStick(const Normal& p, const Normal& q, double epsilon) {
  // log p / q = a x^2 + b x + c.
  const double vp = p.deviation * p.deviation, vq = q.deviation * q.deviation;
  const double a = (1 / vq - 1 / vp) / 2, b = p.mean / vp - q.mean / vq;
  const double c = (q.mean * q.mean / vq - p.mean * p.mean / vp) / 2 + std::log(q.deviation / p.deviation) - epsilon;
  const auto over = [&](double low, double high) {
    return std::max(0.0, p.Within(low, high) - std::exp(epsilon) * q.Within(low, high));
  };
  if (std::abs(a) * vq < 1e-12) {  // equal variances: a line
    if (b == 0) return c > 0 ? 1 - std::exp(epsilon) : 0;
    return b > 0 ? over(-c / b, HUGE_VAL) : over(-HUGE_VAL, -c / b);
  }
  const double discriminant = b * b - 4 * a * c;
  if (discriminant <= 0) return a > 0 ? std::max(0.0, 1 - std::exp(epsilon)) : 0;
  const double half = -(b + std::copysign(std::sqrt(discriminant), b)) / 2;  // roots without cancellation
  double low = half / a, high = half != 0 ? c / half : -low;
  if (low > high) std::swap(low, high);
  return a < 0 ? over(low, high) : over(-HUGE_VAL, low) + over(high, HUGE_VAL);
}

double LogChooseOf(double n, double k) { return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1); }

Status CheckShare(double share, const char* name) {
  if (share >= 0 && share < 1) return absl::OkStatus();
  return InvalidArgument("the {} is {}; it must be at least 0 and below 1", name, share);
}

}  // namespace

double EpsilonBetweenNormals(double mean_a, double deviation_a, double mean_b, double deviation_b, double dp_delta) {
  const Normal a{mean_a, deviation_a}, b{mean_b, deviation_b};
  const auto delta = [&](double epsilon) { return std::max(HockeyStick(a, b, epsilon), HockeyStick(b, a, epsilon)); };
  if (delta(0) <= dp_delta) return 0;
  double low = 0, high = 1;
  while (delta(high) > dp_delta) {
    low = high;
    high *= 2;
    if (high > 1e6) return HUGE_VAL;
  }
  for (int i = 0; i < 100; ++i) {
    const double middle = low + (high - low) / 2;
    (delta(middle) > dp_delta ? low : high) = middle;
  }
  return high;
}

StatusOr<CanaryEstimate> EstimateByCanaries(std::span<const double> cosines, int64_t dimension, double dp_delta) {
  RIVULET_RETURN_IF_ERROR(CheckShare(dp_delta, "delta"));
  if (cosines.size() < 2 || dimension < 1) {
    return InvalidArgument("{} canaries in {} dimensions; an estimate needs at least 2 and 1", cosines.size(),
                           dimension);
  }
  CanaryEstimate estimate;
  const auto count = static_cast<double>(cosines.size());
  for (const double cosine : cosines) estimate.mean += cosine / count;
  double squares = 0;
  for (const double cosine : cosines) squares += (cosine - estimate.mean) * (cosine - estimate.mean);
  estimate.deviation = std::sqrt(squares / count);
  if (!(estimate.deviation > 0))
    return InvalidArgument("all {} cosines are equal, so they have no law", cosines.size());
  estimate.epsilon = EpsilonBetweenNormals(0, 1 / std::sqrt(static_cast<double>(dimension)), estimate.mean,
                                           estimate.deviation, dp_delta);
  return estimate;
}

namespace {

// Solves a x = b by Cholesky's factors of a symmetric positive matrix, which is overwritten.
bool SolveSymmetric(std::vector<std::vector<double>>& a, std::vector<double>& b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      if (i == j && !(sum > 0)) return false;
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return true;
}

}  // namespace

StatusOr<std::vector<double>> ScoreByReleases(const std::vector<std::vector<double>>& products,
                                              const std::vector<std::vector<bool>>& present,
                                              const std::vector<std::vector<double>>& inner, int64_t dimension) {
  // Equal releases up to rounding leave the matrix without an inverse.
  constexpr double kRidge = 1e-9;
  const size_t releases = products.size(), canaries = releases == 0 ? 0 : products[0].size();
  bool fits = releases > 0 && present.size() == releases && inner.size() == releases && dimension > 0;
  for (size_t r = 0; fits && r < releases; ++r) {
    fits = products[r].size() == canaries && present[r].size() == canaries && inner[r].size() == releases;
  }
  if (!fits) return InvalidArgument("products of {} releases with canaries do not fit each other", releases);
  double trace = 0;
  for (size_t r = 0; r < releases; ++r) trace += inner[r][r] / static_cast<double>(dimension);
  if (!(trace > 0)) return InvalidArgument("all {} releases are zero, so nothing of them can be audited", releases);

  std::vector<double> scores(canaries);
  std::map<std::vector<bool>, std::pair<std::vector<double>, double>> weights;  // by the releases of a canary
  for (size_t k = 0; k < canaries; ++k) {
    std::vector<bool> asked(releases);
    for (size_t r = 0; r < releases; ++r) asked[r] = present[r][k];
    auto [found, added] = weights.try_emplace(asked);
    auto& [weight, deviation] = found->second;
    if (added) {
      std::vector<std::vector<double>> noise = inner;
      for (size_t r = 0; r < releases; ++r) {
        for (double& value : noise[r]) value /= static_cast<double>(dimension);
        noise[r][r] += kRidge * trace;
        weight.push_back(asked[r] ? 1 : 0);
      }
      const std::vector<double> membership = weight;
      if (!SolveSymmetric(noise, weight)) return Internal("the releases' inner products are no covariance");
      double square = 0;
      for (size_t r = 0; r < releases; ++r) square += membership[r] * weight[r];
      deviation = std::sqrt(std::max(square, 0.0));
    }
    for (size_t r = 0; deviation > 0 && r < releases; ++r) scores[k] += weight[r] * products[r][k] / deviation;
  }
  return scores;
}

double AuditPValue(int64_t canaries, int64_t guesses, int64_t right, double epsilon, double dp_delta) {
  // Of binomial counts with the probability e^epsilon / (1 + e^epsilon) of being right.
  const auto n = static_cast<double>(guesses);
  const double log_right = -std::log1p(std::exp(-epsilon)), log_wrong = -epsilon + log_right;
  std::vector<double> mass(static_cast<size_t>(guesses) + 1);
  for (int64_t k = 0; k <= guesses; ++k) {
    const auto hits = static_cast<double>(k);
    mass[static_cast<size_t>(k)] =
        std::exp(LogChooseOf(n, hits) + hits * log_right + (k < guesses ? (n - hits) * log_wrong : 0));
  }
  double at_least = 0;
  for (int64_t k = guesses; k >= right; --k) at_least += mass[static_cast<size_t>(k)];
  double most = 0, sum = 0;
  for (int64_t i = 1; i <= right; ++i) {
    sum += mass[static_cast<size_t>(right - i)];
    most = std::max(most, sum / static_cast<double>(i));
  }
  return std::min(1.0, at_least + 2 * static_cast<double>(canaries) * dp_delta * most);
}

StatusOr<double> AuditLowerBound(int64_t canaries, int64_t guesses, int64_t right, double dp_delta, double confidence) {
  RIVULET_RETURN_IF_ERROR(CheckShare(dp_delta, "delta"));
  RIVULET_RETURN_IF_ERROR(CheckShare(confidence, "confidence"));
  if (right < 0 || right > guesses || guesses > canaries) {
    return InvalidArgument("{} of {} guesses of {} canaries are right; each must be at most the next", right, guesses,
                           canaries);
  }
  const auto refuted = [&](double epsilon) {
    return AuditPValue(canaries, guesses, right, epsilon, dp_delta) <= 1 - confidence;
  };
  if (!refuted(0)) return 0;
  double low = 0, high = 1;
  while (refuted(high)) {
    low = high;
    high *= 2;
    if (high > 1000) return low;
  }
  for (int i = 0; i < 60; ++i) {
    const double middle = low + (high - low) / 2;
    (refuted(middle) ? low : high) = middle;
  }
  return low;
}

StatusOr<GuessedCanaries> GuessCanaries(std::span<const SeenCanary> canaries, int64_t guesses, double dp_delta,
                                        double confidence) {
  const int64_t count = std::ssize(canaries);
  if (guesses < 2 || guesses % 2 != 0 || guesses > count) {
    return InvalidArgument("{} guesses about {} canaries; take an even number from 2 to {}", guesses, count, count);
  }
  std::vector<SeenCanary> by_score(canaries.begin(), canaries.end());
  std::ranges::stable_sort(by_score, std::greater<>(), &SeenCanary::score);
  GuessedCanaries guessed{.guesses = guesses};
  for (int64_t i = 0; i < guesses / 2; ++i) {
    guessed.right += by_score[static_cast<size_t>(i)].taken ? 1 : 0;
    guessed.right += by_score[static_cast<size_t>(count - 1 - i)].taken ? 0 : 1;
  }
  RIVULET_ASSIGN_OR_RETURN(guessed.epsilon, AuditLowerBound(count, guesses, guessed.right, dp_delta, confidence));
  return guessed;
}

}  // namespace rivulet::privacy
