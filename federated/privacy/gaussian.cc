#include "federated/privacy/gaussian.h"

#include <cmath>
#include <numbers>

namespace rivulet::privacy {
namespace {

// (1 - Phi(x)) / phi(x) for x >= 0 (Mills' ratio).
double MillsRatio(double x) { return std::sqrt(std::numbers::pi / 2) * ScaledErfc(x / std::numbers::sqrt2); }

}  // namespace

double ScaledErfc(double x) {
  if (x < 0) return x < -26.6 ? HUGE_VAL : 2 * std::exp(x * x) - ScaledErfc(-x);
  if (x < 2) return std::exp(x * x) * std::erfc(x);
  // sqrt(pi) e^(x^2) erfc(x) = 1 / (x + (1/2) / (x + (2/2) / (x + (3/2) / ...))), from the inside; 120 terms are more
  // than doubles can tell apart from x = 2 on.
  double fraction = x;
  for (int k = 120; k >= 1; --k) fraction = x + 0.5 * k / fraction;
  return 1 / (std::sqrt(std::numbers::pi) * fraction);
}

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double GaussianDelta(double mu, double epsilon) {
  if (!(mu > 0)) return 0;
  if (std::isinf(mu)) return 1;
  const double a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2;
  const double density = std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi);
  // e^epsilon phi(b) = phi(a), so both terms share a factor and nothing overflows.
  const double delta = a >= 0 ? density * (MillsRatio(a) - MillsRatio(b)) : NormalCdf(-a) - density * MillsRatio(b);
  return delta > 0 ? delta : 0;
}

double GaussianEpsilon(double mu, double delta) {
  if (!(mu > 0) || GaussianDelta(mu, 0) <= delta) return 0;
  if (!(delta > 0) || std::isinf(mu)) return HUGE_VAL;
  // delta <= P(loss > epsilon), and the loss is normal with mean mu^2/2 and deviation mu.
  double low = 0, high = mu * mu / 2 + mu * std::sqrt(2 * -std::log(delta)) + mu;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (!(middle > low && middle < high)) return high;
    (GaussianDelta(mu, middle) > delta ? low : high) = middle;
  }
}

double CentralLimitMu(double multiplier, double rate, double steps) {
  return rate * std::sqrt(steps * std::expm1(1 / (multiplier * multiplier)));
}

}  // namespace rivulet::privacy
