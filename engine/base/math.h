// Exponentials and logarithms in double, computed from additions, multiplications and divisions alone. Different
// machines and versions of the C library therefore give the same bits. Results are within 2 units in the last place of
// a double; floats are rounded from the double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rivulet::math {

inline constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits, so that n · kLn2High is exact
inline constexpr double kLn2Low = 1.90821492927058770002e-10;

// e^r - 1 for |r| <= 0.36: Taylor's series, whose next term is below 1e-18.
inline double Expm1Reduced(double r) {
  double p = 1.0 / 87178291200.0;  // 1 / 14!
  p = p * r + 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return p * r * r + r;
}

// e^x = 2^n e^r with |r| <= ln(2)/2. Beyond the range of double: 0 or infinity.
inline double Exp(double x) {
  if (!(x < 709.79)) return x != x ? x : std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0.0;
  const double n = std::floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double e = Expm1Reduced(r) + 1.0;
  // In two factors, since 2^n itself may be beyond the range.
  const auto whole = static_cast<int64_t>(n), half = whole / 2;
  const auto power = [](int64_t k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); };
  return e * power(half) * power(whole - half);
}

inline double Expm1(double x) { return x > -0.36 && x < 0.36 ? Expm1Reduced(x) : Exp(x) - 1.0; }

// log((1 + s) / (1 - s)) = 2 (s + s³/3 + s⁵/5 + …) for |s| <= 0.172.
constexpr double LogSeries(double s) {
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  return 2.0 * (p * z * s + s);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)).
constexpr double Log(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == std::numeric_limits<double>::infinity()) return x;
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m >= 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (LogSeries((m - 1.0) / (m + 1.0)) + e * kLn2Low);
}

inline double Log1p(double x) {
  if (x > -0.29 && x < 0.41) return LogSeries(x / (2.0 + x));
  return Log(1.0 + x);
}

inline double Tanh(double x) {
  if (x > 20.0) return 1.0;
  if (x < -20.0) return -1.0;
  const double e = Expm1(2.0 * x);
  return e / (e + 2.0);
}

inline double Sigmoid(double x) {
  // The exponential of a negative number only, so that nothing overflows.
  const double e = Exp(x < 0.0 ? x : -x);
  return x < 0.0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}

inline double Softplus(double x) { return (x > 0.0 ? x : 0.0) + Log1p(Exp(x < 0.0 ? x : -x)); }

// The error function 2/sqrt(pi) ∫ e^-t² dt from 0 to x, and 1 minus it, which keeps its digits where it is small.
double Erf(double x);
double Erfc(double x);

// The inverse of Erf for x in [-1, 1]; NaN beyond.
double ErfInverse(double x);

// The derivative of the logarithm of the gamma function; NaN at 0 and the negative integers, its poles.
double Digamma(double x);

// The inverse of the normal distribution's cumulative function: infinite at 0 and 1, NaN beyond. Wichura, "Algorithm AS
// 241: The percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16: relative error about
// 1e-16.
double NormalQuantile(double p);

}  // namespace rivulet::math
