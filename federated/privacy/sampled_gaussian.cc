#include "federated/privacy/sampled_gaussian.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "federated/privacy/gaussian.h"

namespace rivulet::privacy {
namespace {

double LogAdd(double a, double b) {
  if (a < b) std::swap(a, b);
  return std::isinf(b) ? a : a + std::log1p(std::exp(b - a));
}

// log |Gamma(x)|; std::lgamma writes a global.
double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

double LogChoose(double n, double k) { return LogGamma(n + 1) - LogGamma(k + 1) - LogGamma(n - k + 1); }

double LogErfc(double x) { return x > 0 ? std::log(ScaledErfc(x)) - x * x : std::log(std::erfc(x)); }

// log of the expectation of e^(order * loss) under N(0, noise^2) for a whole order: the binomial sum, with what is
// taken from 1 apart, so that small ones keep their digits.
double WholeLogMoment(double noise, double rate, int order) {
  if (order <= 1) return 0;
  const double log_rate = std::log(rate), log_rest = std::log1p(-rate);
  double log = -HUGE_VAL;
  for (int i = 2; i <= order; ++i) {
    const double power = i * (i - 1.0) / (2 * noise * noise);
    const double log_excess = power > 1 ? power + std::log1p(-std::exp(-power)) : std::log(std::expm1(power));
    log = LogAdd(log, LogChoose(order, i) + i * log_rate + (order - i) * log_rest + log_excess);
  }
  return log > 1 ? LogAdd(0, log) : std::log1p(std::exp(log));
}

// The same for a fractional order, from above: the two series of Mironov, Talwar and Zhang 2019, section 3.3, with all
// terms taken as positive. nullopt where they do not converge within 1,000 terms.
std::optional<double> FractionalLogMoment(double noise, double rate, double order) {
  const double log_rate = std::log(rate), log_rest = std::log1p(-rate), variance = noise * noise;
  const double middle = variance * (log_rest - log_rate) + 0.5;
  double left = -HUGE_VAL, right = -HUGE_VAL, last_left = -HUGE_VAL, last_right = -HUGE_VAL;
  for (int i = 0; i < 1000; ++i) {
    const double j = order - i, log_choose = LogChoose(order, i) - std::numbers::ln2;
    const double left_term = log_choose + i * log_rate + j * log_rest + i * (i - 1.0) / (2 * variance) +
                             LogErfc((i - middle) / (std::numbers::sqrt2 * noise));
    const double right_term = log_choose + j * log_rate + i * log_rest + j * (j - 1) / (2 * variance) +
                              LogErfc((middle - j) / (std::numbers::sqrt2 * noise));
    left = LogAdd(left, left_term);
    right = LogAdd(right, right_term);
    const double total = LogAdd(left, right);
    if (left_term < last_left && right_term < last_right && std::max(left_term, right_term) < total - 30) return total;
    last_left = left_term, last_right = right_term;
  }
  return std::nullopt;
}

// Differences of e^cgf at 0 of even order up to 2 * floor(n / 2), as logarithms: differences of a function that is
// e^(x (x + 1) / (2 noise^2)) are sums with alternating signs whose digits cancel, so they are carried as logarithms
// with signs, as their authors do.
std::vector<double> LogDifferences(double noise, int n) {
  std::vector<double> log(static_cast<size_t>(n) + 3);
  std::vector<char> positive(log.size(), 1);
  std::vector<double> found;
  log[0] = 0;  // e^cgf(-1)
  for (size_t i = 1; i < log.size(); ++i) {
    const double x = static_cast<double>(i) - 1;
    log[i] = x * (x + 1) / (2 * noise * noise);
  }
  const auto subtract = [](double larger, double smaller) {
    return std::isinf(smaller) ? larger : larger + std::log(-std::expm1(smaller - larger));
  };
  for (size_t length = log.size() - 1; found.size() < static_cast<size_t>(n) + 2; --length) {
    for (size_t j = 0; j < length; ++j) {
      if (positive[j] != positive[j + 1]) {
        log[j] = LogAdd(log[j], log[j + 1]);
        positive[j] = positive[j + 1];
      } else if (log[j + 1] > log[j]) {
        log[j] = subtract(log[j + 1], log[j]);
      } else if (log[j] > log[j + 1]) {
        log[j] = subtract(log[j], log[j + 1]);
        positive[j] = !positive[j];
      } else {
        log[j] = -HUGE_VAL;
        positive[j] = 1;
      }
    }
    found.push_back(log[0]);
  }
  return found;
}

// (order - 1) times the bound at a whole order.
double FixedSizeLogMoment(double noise, double rate, int order) {
  if (order <= 1) return 0;
  const double variance = noise * noise;
  const auto cgf = [&](int x) { return x * (x + 1.0) / (2 * variance); };
  // Above this order the weaker term alone is used: the differences cost the square of the order.
  constexpr int kMostExact = 256;
  std::vector<double> differences;
  if (order <= kMostExact) differences = LogDifferences(noise, order);
  const double at_two = 2 / (2 * variance);
  double log = 0;
  for (int i = 2; i <= order; ++i) {
    double term;
    if (i == 2) {
      term = std::min(std::log(4) + at_two + std::log1p(-std::exp(-at_two)), at_two + std::log(2));
    } else {
      term = std::log(2) + cgf(i - 1);
      if (order <= kMostExact) {
        const auto even = [&](int k) { return differences[static_cast<size_t>(k) - 1]; };
        term = std::min(term, std::log(4) + 0.5 * (even(2 * (i / 2)) + even(2 * ((i + 1) / 2))));
      }
    }
    log = LogAdd(log, term + i * std::log(rate) + LogChoose(order, i));
  }
  return log;
}

// `log_moment` at whole orders, linear between them, over order - 1.
template <typename F>
double BetweenWholeOrders(double order, F log_moment) {
  const double below = std::floor(order), share = order - below;
  double log = (1 - share) * log_moment(static_cast<int>(below));
  if (share > 0) log += share * log_moment(static_cast<int>(below) + 1);
  return log / (order - 1);
}

}  // namespace

double SampledGaussianRenyi(double noise, double rate, double order) {
  if (!(rate > 0)) return 0;
  if (!(noise > 0)) return HUGE_VAL;
  if (rate >= 1) return order / (2 * noise * noise);
  if (order != std::floor(order)) {
    const std::optional<double> log = FractionalLogMoment(noise, rate, order);
    if (log) return std::max(0.0, *log / (order - 1));
  }
  return BetweenWholeOrders(order, [&](int whole) { return WholeLogMoment(noise, rate, whole); });
}

double FixedSizeGaussianRenyi(double noise, double rate, double order) {
  if (!(rate > 0)) return 0;
  if (!(noise > 0)) return HUGE_VAL;
  const double unsampled = order / (2 * noise * noise);
  if (rate >= 1) return unsampled;
  return std::min(unsampled,
                  BetweenWholeOrders(order, [&](int whole) { return FixedSizeLogMoment(noise, rate, whole); }));
}

double SampledDiscreteGaussianRenyi(double noise, double rate, double order) {
  if (!(rate > 0)) return 0;
  if (!(noise > 0)) return HUGE_VAL;
  if (rate >= 1) return order / (2 * noise * noise);
  return BetweenWholeOrders(order, [&](int whole) { return WholeLogMoment(noise, rate, whole); });
}

}  // namespace rivulet::privacy
