#include "engine/base/special_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/math.h"
#include "engine/base/trigonometry.h"

namespace rivulet::math {
namespace {

constexpr double kHalfTurn = 3.14159265358979323846, kEuler = 0.57721566490153286061;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kAsymptotic = 50;  // from here on asymptotic series have all digits of a double
constexpr double kLeastFraction = 1e-300;

// The mean of f over [0, π]: of a function that is even and periodic, exact but for what oscillates faster than the
// points do.
template <typename F>
double MeanOverHalfTurn(int points, F f) {
  double sum = 0.5 * (f(0.0) + f(kHalfTurn));
  for (int i = 1; i < points; ++i) sum += f(kHalfTurn * i / points);
  return sum / points;
}

// 1/√(2πx) · Σ (-1)^k a_k(order) / x^k, for e^-x I(x); with all signs positive for e^x K(x).
double HankelSum(double order, double x, double sign) {
  const double mu = 4 * order * order;
  double term = 1, sum = 1;
  for (int k = 1; k < 40; ++k) {
    const double odd = 2 * k - 1;
    const double next = term * sign * (mu - odd * odd) / (8 * x * k);
    if (std::abs(next) > std::abs(term)) break;
    sum += term = next;
  }
  return sum;
}

// √(2/πx) (P cos(x - φ) - Q sin(x - φ)).
double FarJ(double order, double x) {
  const double mu = 4 * order * order;
  double term = 1, p = 1, q = 0;
  for (int k = 1; k < 40; ++k) {
    const double odd = 2 * k - 1;
    const double next = term * (mu - odd * odd) / (8 * x * k);
    if (std::abs(next) > std::abs(term)) break;
    term = next;
    const double sign = k % 4 < 2 ? 1 : -1;  // of i^k: q +, p -, q -, p +
    if (k % 2 == 1)
      q += sign * term;
    else
      p += (k % 4 == 2 ? -1 : 1) * term;
  }
  const double phase = x - (order / 2 + 0.25) * kHalfTurn;
  return std::sqrt(2 / (kHalfTurn * x)) * (p * Cos(phase) - q * Sin(phase));
}

// ∫ e^(-x cosh t) cosh(order t) dt from 0 on.
double NearK(double order, double x) {
  const double step = 1.0 / 16;
  double sum = 0.5 * Exp(-x);
  for (int i = 1; i < 400; ++i) {
    const double t = step * i, exponent = x * Cosh(t);
    if (exponent > 740) break;
    sum += Exp(-exponent) * (order == 0 ? 1.0 : Cosh(order * t));
  }
  return sum * step;
}

double BesselK(double order, double x) {
  if (!(x >= 0)) return kUndefined;
  if (x == 0) return kUnbounded;
  if (x > kAsymptotic) return std::sqrt(kHalfTurn / (2 * x)) * Exp(-x) * HankelSum(order, x, 1);
  return NearK(order, x);
}

double PowerOf(double base, double exponent) { return Exp(exponent * Log(base)); }

}  // namespace

double BesselI0e(double x) {
  x = std::abs(x);
  if (!(x < kUnbounded)) return x != x ? x : 0;
  if (x > kAsymptotic) return HankelSum(0, x, -1) / std::sqrt(2 * kHalfTurn * x);
  return MeanOverHalfTurn(96, [x](double t) { return Exp(x * (Cos(t) - 1)); });
}

double BesselI1e(double x) {
  const double size = std::abs(x);
  if (!(size < kUnbounded)) return x != x ? x : 0;
  const double value = size > kAsymptotic
                           ? HankelSum(1, size, -1) / std::sqrt(2 * kHalfTurn * size)
                           : MeanOverHalfTurn(96, [size](double t) { return Exp(size * (Cos(t) - 1)) * Cos(t); });
  return x < 0 ? -value : value;
}

double BesselJ0(double x) {
  x = std::abs(x);
  if (!(x < kUnbounded)) return x != x ? x : 0;
  if (x > kAsymptotic) return FarJ(0, x);
  return MeanOverHalfTurn(96, [x](double t) { return Cos(x * Sin(t)); });
}

double BesselJ1(double x) {
  const double size = std::abs(x);
  if (!(size < kUnbounded)) return x != x ? x : 0;
  const double value =
      size > kAsymptotic ? FarJ(1, size) : MeanOverHalfTurn(96, [size](double t) { return Cos(t - size * Sin(t)); });
  return x < 0 ? -value : value;
}

double BesselK0(double x) { return BesselK(0, x); }
double BesselK1(double x) { return BesselK(1, x); }

// Rybicki, "Dawson's integral and the sampling theorem" (1989): Σ e^-(x - nh)² / n over odd n, divided by √π.
double Dawson(double x) {
  if (!(std::abs(x) < kUnbounded)) return x != x ? x : 0;
  if (std::abs(x) < 0.05) {
    const double s = x * x;
    return x * (1 - s * (2.0 / 3) * (1 - s * 0.4 * (1 - s * (2.0 / 7) * (1 - s * (2.0 / 9)))));
  }
  if (std::abs(x) > 1e8) return 0.5 / x;
  constexpr double kStep = 0.2;
  const auto middle = static_cast<int64_t>(std::floor(x / kStep / 2)) * 2 + 1;
  double sum = 0;
  for (int64_t n = middle - 34; n <= middle + 34; n += 2) {
    const double away = x - kStep * static_cast<double>(n);
    sum += Exp(-away * away) / static_cast<double>(n);
  }
  return sum / std::sqrt(kHalfTurn);
}

double ExpIntegral(double x) {
  if (!(x >= 0)) return kUndefined;
  if (x == 0) return -kUnbounded;
  if (x > 40) {
    double term = 1, sum = 1;
    for (int k = 1; k < 60; ++k) {
      const double next = term * k / x;
      if (next > term) break;
      sum += term = next;
    }
    return Exp(x) / x * sum;
  }
  double term = 1, sum = 0;
  for (int k = 1; k < 200; ++k) {
    term *= x / k;
    sum += term / k;
    if (term / k < 1e-18 * sum) break;
  }
  return kEuler + Log(x) + sum;
}

namespace {

// Both integrals at x > 0: by Gauss's rule of five points over pieces of less than half a turn, and far out by the
// asymptotic series of the auxiliary functions (Abramowitz and Stegun 7.3.27 and 7.3.28).
void Fresnel(double x, double* cosine, double* sine) {
  if (x > 6) {
    const double s = kHalfTurn * x * x, s2 = s * s;
    const double f = (1 - 3 / s2 + 105 / (s2 * s2) - 10395 / (s2 * s2 * s2)) / (kHalfTurn * x);
    const double g = (1 - 15 / s2 + 945 / (s2 * s2)) / (kHalfTurn * s * x);
    // Turns are counted before they are scaled, for digits.
    const double turns = x * x / 4 - std::floor(x * x / 4);
    const double at = 2 * kHalfTurn * turns;
    *cosine = 0.5 + f * Sin(at) - g * Cos(at);
    *sine = 0.5 - f * Cos(at) - g * Sin(at);
    return;
  }
  constexpr double kAt[] = {0, 0.53846931010568309104, 0.90617984593866399280};
  constexpr double kWeight[] = {0.56888888888888888889, 0.47862867049936646804, 0.23692688505618908751};
  const int pieces = 8 + static_cast<int>(4 * x * x);
  *cosine = *sine = 0;
  const double half = x / pieces / 2;
  const auto add = [&](double t, double weight) {
    const double angle = kHalfTurn / 2 * t * t;
    *cosine += weight * Cos(angle);
    *sine += weight * Sin(angle);
  };
  for (int i = 0; i < pieces; ++i) {
    const double middle = half * (2 * i + 1);
    add(middle, kWeight[0]);
    for (int k = 1; k < 3; ++k) {
      add(middle - half * kAt[k], kWeight[k]);
      add(middle + half * kAt[k], kWeight[k]);
    }
  }
  *cosine *= half;
  *sine *= half;
}

}  // namespace

double FresnelCosine(double x) {
  if (x != x) return x;
  double cosine = 0.5, sine = 0.5;
  if (std::abs(x) < 1e7) Fresnel(std::abs(x), &cosine, &sine);
  return x < 0 ? -cosine : cosine;
}

double FresnelSine(double x) {
  if (x != x) return x;
  double cosine = 0.5, sine = 0.5;
  if (std::abs(x) < 1e7) Fresnel(std::abs(x), &cosine, &sine);
  return x < 0 ? -sine : sine;
}

// Li2(1 - x), brought to |argument| <= 1/2 by its reflections.
double Spence(double x) {
  if (!(x >= 0)) return kUndefined;
  if (x == 0) return kHalfTurn * kHalfTurn / 6;
  if (x == kUnbounded) return -kUnbounded;
  const auto series = [](double z) {
    double power = z, sum = 0;
    for (int k = 1; k < 80; ++k, power *= z) sum += power / (static_cast<double>(k) * k);
    return sum;
  };
  const double log_x = Log(x);
  if (x < 0.5) return kHalfTurn * kHalfTurn / 6 - log_x * Log1p(-x) - series(x);
  if (x <= 1.5) return series(1 - x);
  if (x < 2) {
    // By 1/x, which lies in [1/2, 1].
    return -series(1 - 1 / x) - 0.5 * log_x * log_x;
  }
  const double inverse = 1 / x;
  return -(kHalfTurn * kHalfTurn / 6 + log_x * Log1p(-inverse) - series(inverse)) - 0.5 * log_x * log_x;
}

// Euler and Maclaurin's sum.
double HurwitzZeta(double x, double q) {
  if (x == 1) return kUnbounded;
  if (!(x > 1)) return kUndefined;
  if (q <= 0) {
    if (q == std::floor(q)) return kUnbounded;
    if (x != std::floor(x)) return kUndefined;
  }
  const auto power = [x](double base) {
    const double size = PowerOf(std::abs(base), -x);
    return base < 0 && std::fmod(x, 2.0) != 0 ? -size : size;
  };
  double sum = 0, at = q;
  for (int k = 0; k < 12 || at < 12; ++k, at += 1) sum += power(at);
  const double tail = power(at);
  sum += tail * at / (x - 1) + 0.5 * tail;
  // B_2k / (2k)!.
  constexpr double kBernoulli[] = {1.0 / 12,
                                   -1.0 / 720,
                                   1.0 / 30240,
                                   -1.0 / 1209600,
                                   1.0 / 47900160,
                                   -691.0 / 1307674368000.0,
                                   1.0 / 74724249600.0,
                                   -3617.0 / 10670622842880000.0};
  double factor = x, scale = tail / at;
  for (int k = 0; k < 8; ++k) {
    sum += kBernoulli[k] * factor * scale;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
    scale /= at * at;
  }
  return sum;
}

double Polygamma(double n, double x) {
  if (!(n >= 0) || n != std::floor(n)) return kUndefined;
  if (n == 0) return Digamma(x);
  double factorial = 1;
  for (int i = 2; i <= n && i < 171; ++i) factorial *= i;
  const double value = factorial * HurwitzZeta(n + 1, x);
  return std::fmod(n, 2.0) == 0 ? -value : value;
}

namespace {

// x^a e^-x / Γ(a).
double GammaShare(double a, double x) { return Exp(a * Log(x) - x - Lgamma(a)); }

// Σ x^n / (a (a + 1) … (a + n)), where x < a + 1.
double GammaSeries(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < 10000; ++n) {
    term *= x / (a + n);
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return sum * GammaShare(a, x);
}

// Lentz's continued fraction, where x >= a + 1.
double GammaFraction(double a, double x) {
  double b = x + 1 - a, c = 1 / kLeastFraction, d = 1 / b, h = d;
  for (int n = 1; n < 10000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    if (std::abs(d) < kLeastFraction) d = kLeastFraction;
    c = b + an / c;
    if (std::abs(c) < kLeastFraction) c = kLeastFraction;
    d = 1 / d;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return h * GammaShare(a, x);
}

bool OutsideGamma(double a, double x) { return !(x >= 0) || !(a >= 0) || (a == 0 && x == 0); }

}  // namespace

double GammaP(double a, double x) {
  if (OutsideGamma(a, x)) return kUndefined;
  if (x == 0 || a == kUnbounded) return 0;
  if (a == 0 || x == kUnbounded) return 1;
  return x < a + 1 ? GammaSeries(a, x) : 1 - GammaFraction(a, x);
}

double GammaQ(double a, double x) {
  if (OutsideGamma(a, x)) return kUndefined;
  if (x == 0 || a == kUnbounded) return 1;
  if (a == 0 || x == kUnbounded) return 0;
  return x < a + 1 ? 1 - GammaSeries(a, x) : GammaFraction(a, x);
}

// Lentz's continued fraction, on the side where it converges fast.
double BetaI(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return kUndefined;
  if (x == 0 || x == 1) return x;
  if (x > (a + 1) / (a + b + 2)) return 1 - BetaI(b, a, 1 - x);
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  if (std::abs(d) < kLeastFraction) d = kLeastFraction;
  d = 1 / d;
  double h = d;
  for (int m = 1; m < 10000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      if (std::abs(d) < kLeastFraction) d = kLeastFraction;
      c = 1 + term / c;
      if (std::abs(c) < kLeastFraction) c = kLeastFraction;
      d = 1 / d;
      change = d * c;
      h *= change;
    }
    if (std::abs(change - 1) < 1e-16) break;
  }
  return h * Exp(a * Log(x) + b * Log1p(-x) - Lgamma(a) - Lgamma(b) + Lgamma(a + b)) / a;
}

}  // namespace rivulet::math
