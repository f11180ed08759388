#include "engine/base/trigonometry.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/base/math.h"
#include "engine/base/polynomial.h"

namespace rivulet::math {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// An angle as quadrant (mod 4) and rest in [-pi/4, pi/4].
struct Reduced {
  int quadrant;
  double rest;
};

// Payne and Hanek, "Radian reduction for trigonometric functions" (1983): of x · 2/pi only the bits that matter modulo
// 4 are computed, to 137 places behind the point.
Reduced ReduceLarge(double x) {
  // 64 zeros, then the binary digits of 2/pi.
  static constexpr std::array<uint64_t, 20> digits = {0,
                                                      0xa2f9836e4e441529,
                                                      0xfc2757d1f534ddc0,
                                                      0xdb6295993c439041,
                                                      0xfe5163abdebbc561,
                                                      0xb7246e3a424dd2e0,
                                                      0x06492eea09d1921c,
                                                      0xfe1deb1cb129a73e,
                                                      0xe88235f52ebb4484,
                                                      0xe99c7026b45f7e41,
                                                      0x3991d639835339f4,
                                                      0x9c845f8bbdf9283b,
                                                      0x1ff897ffde05980f,
                                                      0xef2f118b5a0a6d1f,
                                                      0x6d367ecf27cb09b7,
                                                      0x4f463f669e5fea2d,
                                                      0x7527bac7ebe5f17b,
                                                      0x3d0739f78a5292ea,
                                                      0x6bfb5fb11f8d5d08,
                                                      0x56033046fc7b6bab};
  const auto bits = std::bit_cast<uint64_t>(x);
  const int exponent = static_cast<int>((bits >> 52) & 2047) - 1075;  // |x| = mantissa · 2^exponent
  const uint64_t mantissa = (bits & 0x000FFFFFFFFFFFFFu) | 0x0010000000000000u;
  // Digits before this one make multiples of 4.
  const auto first = static_cast<unsigned>(exponent - 2 + 64);
  const auto word = [&](unsigned i) {
    const unsigned at = first / 64 + i, shift = first % 64;
    return shift == 0 ? digits[at] : digits[at] << shift | digits[at + 1] >> (64 - shift);
  };
  // The product modulo 2^192, in units of 2^-190.
  const unsigned __int128 low = static_cast<unsigned __int128>(mantissa) * word(2);
  const unsigned __int128 middle =
      static_cast<unsigned __int128>(mantissa) * word(1) + static_cast<uint64_t>(low >> 64);
  uint64_t high = mantissa * word(0) + static_cast<uint64_t>(middle >> 64);
  auto quadrant = static_cast<int>(high >> 62);
  high &= 0x3FFFFFFFFFFFFFFFu;
  const double fraction_rest = static_cast<double>(static_cast<uint64_t>(middle)) * 0x1p-126;
  double fraction = static_cast<double>(high) * 0x1p-62 + fraction_rest;
  if (high >= 0x2000000000000000u) {  // from a half on: the next quadrant, less what is missing
    ++quadrant;
    fraction = fraction_rest - static_cast<double>(0x4000000000000000u - high) * 0x1p-62;
  }
  const double rest = fraction * (kPi / 2);
  return x < 0 ? Reduced{-quadrant & 3, -rest} : Reduced{quadrant & 3, rest};
}

Reduced Reduce(double x) {
  if (x > 1e6 || x < -1e6) return ReduceLarge(x);
  // Cody and Waite: pi/2 in three parts, of which n times the first two are exact.
  const double n = std::floor(x * 0.63661977236758134308 + 0.5);
  const double rest =
      ((x - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
  return {static_cast<int>(static_cast<int64_t>(n) & 3), rest};
}

// Taylor's series up to r^17 and r^18.
double SinNear0(double r) {
  static constexpr std::array<double, 8> series = {
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  const double z = r * r;
  return r + r * z * Polynomial(series, z);
}
double CosNear0(double r) {
  static constexpr std::array<double, 8> series = {
      -1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0,
      -1.0 / 3628800.0,          1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0};
  const double z = r * r, half = 0.5 * z, head = 1.0 - half;
  return head + (((1.0 - head) - half) + z * z * Polynomial(series, z));
}

double SinOf(const Reduced& x) {
  const double value = x.quadrant & 1 ? CosNear0(x.rest) : SinNear0(x.rest);
  return x.quadrant & 2 ? -value : value;
}
double CosOf(const Reduced& x) { return SinOf({(x.quadrant + 1) & 3, x.rest}); }

bool IsFinite(double x) { return x - x == 0; }

// For a >= 0. Angles are halved until the series is short: z³/3 - z⁵/5 + … for z <= 0.199.
double AtanOfPositive(double a) {
  if (a > 1.0) return kPi / 2 - (AtanOfPositive(1.0 / a) - 6.123233995736766e-17);  // what pi/2 lacks
  double base = 0.0;
  if (a > 0.41421356237309503) {
    base = kPi / 4;
    a = (a - 1.0) / (a + 1.0);
  }
  const double z = a / (1.0 + std::sqrt(1.0 + a * a)), square = z * z;
  double p = 0.0;
  for (int n = 27; n >= 3; n -= 2) p = p * square + (n % 4 == 3 ? -1.0 : 1.0) / n;
  return base + 2.0 * (z + z * square * p);
}

}  // namespace

double Sin(double x) { return !IsFinite(x) ? kNaN : x > -1e-9 && x < 1e-9 ? x : SinOf(Reduce(x)); }
double Cos(double x) { return !IsFinite(x) ? kNaN : CosOf(Reduce(x)); }
double Tan(double x) {
  if (!IsFinite(x)) return kNaN;
  if (x > -1e-9 && x < 1e-9) return x;
  const Reduced reduced = Reduce(x);
  return SinOf(reduced) / CosOf(reduced);
}

double Atan(double x) {
  if (x != x) return x;
  return std::copysign(AtanOfPositive(std::abs(x)), x);
}
double Asin(double x) { return Atan(x / std::sqrt((1.0 - x) * (1.0 + x))); }
double Acos(double x) { return 2.0 * Atan(std::sqrt((1.0 - x) / (1.0 + x))); }
double Atan2(double y, double x) {
  if (x != x || y != y) return kNaN;
  const double across = std::abs(x), up = std::abs(y);
  double angle = 0.0;  // of the origin too
  if (across == up && up != 0.0)
    angle = kPi / 4;  // both infinite, too
  else if (up != 0.0)
    angle = AtanOfPositive(up / across);
  if (std::signbit(x)) angle = kPi - angle;
  return std::copysign(angle, y);
}

double Sinh(double x) {
  const double a = std::abs(x);
  double value = 0.0;
  if (a > 36.0) {
    const double root = Exp(0.5 * a);  // e^a itself may be beyond the range
    value = 0.5 * root * root;
  } else {
    const double e = Expm1(a);
    value = 0.5 * (e + e / (e + 1.0));
  }
  return x != x ? x : std::copysign(value, x);
}
double Cosh(double x) {
  const double a = std::abs(x);
  if (a > 36.0) {
    const double root = Exp(0.5 * a);
    return 0.5 * root * root;
  }
  const double e = Exp(a);
  return 0.5 * e + 0.5 / e;
}

double Asinh(double x) {
  const double a = std::abs(x);
  const double value = a > 0x1p28 ? Log(a) + 0.69314718055994530942 : Log1p(a + a * a / (1.0 + std::sqrt(1.0 + a * a)));
  return x != x ? x : std::copysign(value, x);
}
double Acosh(double x) {
  if (!(x >= 1.0)) return kNaN;
  if (x > 0x1p28) return Log(x) + 0.69314718055994530942;
  const double above = x - 1.0;
  return Log1p(above + std::sqrt(2.0 * above + above * above));
}
double Atanh(double x) {
  const double a = std::abs(x);
  if (!(a <= 1.0)) return kNaN;
  return std::copysign(0.5 * Log1p(2.0 * a / (1.0 - a)), x);
}

double Lgamma(double x) {
  if (x != x) return x;
  if (!IsFinite(x)) return std::numeric_limits<double>::infinity();
  if (x <= 0.0) {
    const double fraction = x - std::floor(x);
    if (fraction == 0.0) return std::numeric_limits<double>::infinity();
    return Log(kPi / Sin(kPi * fraction)) - Lgamma(1.0 - x);
  }
  double product = 1.0;
  for (; x < 12.0; x += 1.0) product *= x;
  // Stirling: (x - 1/2) log x - x + log(2 pi)/2 + Σ B_2k / (2k (2k - 1) x^(2k-1)).
  const double inverse = 1.0 / x, z = inverse * inverse;
  static constexpr std::array<double, 7> series = {1.0 / 156.0,  -691.0 / 360360.0, 1.0 / 1188.0, -1.0 / 1680.0,
                                                   1.0 / 1260.0, -1.0 / 360.0,      1.0 / 12.0};
  const double stirling = (x - 0.5) * Log(x) - x + 0.91893853320467274178 + inverse * Polynomial(series, z);
  return stirling - Log(product);
}

}  // namespace rivulet::math
