#include "engine/base/math.h"

#include <array>
#include <cstddef>
#include <limits>

#include "engine/base/normal_quantile.h"
#include "engine/base/polynomial.h"
#include "engine/base/trigonometry.h"

namespace rivulet::math {
namespace {

// erf(a) for |a| < 1: a times a polynomial in a², fitted to 2e-19.
double ErfNear0(double a) {
  static constexpr std::array<double, 13> fit = {
      5.9571761477489114e-11, -1.13728488567916737e-9, 1.46597752740474358e-8, -1.6350312701054695e-7,
      1.6461000484121368e-6,  -1.49255952668311816e-5, 1.20553311116427109e-4, -8.54832698083378991e-4,
      5.22397762481801447e-3, -2.68661706450767932e-2, 1.12837916709548787e-1, -3.76126389031837481e-1,
      1.12837916709551257};
  return a * Polynomial(fit, a * a);
}

// erfc(a) = e^(-a²) P(t) / a for a >= 1, with t = (a - 3) / (a + 3) and P fitted to 4e-18.
double ErfcFrom1(double a) {
  static constexpr std::array<double, 21> fit = {
      -1.48686288563912819e-8, 8.90801655028995343e-8, -7.48444386313845178e-8, -3.68311331413841593e-7,
      3.02909946144392519e-7,  1.9038808024730736e-6,  -1.00020562535291301e-6, -1.11150977030435501e-5,
      6.46661991604353771e-6,  6.89805324435882687e-5, -8.46086824219913741e-5, -4.12543824762564204e-4,
      1.24287620569462921e-3,  9.10822689563830938e-4, -1.4019825628726906e-2,  4.63502633313315604e-2,
      -9.54697503065569063e-2, 1.3988054760176857e-1,  -1.46583048032891787e-1, 9.53062269592280269e-2,
      5.37003453544169853e-1};
  if (a > 27.3) return 0.0;
  // a² in two parts: the first is of 26 bits and so exact, the second's rounding does not matter.
  const double head = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & 0xFFFFFFFFF8000000u);
  const double power = Exp(-head * head) * Exp(-(a - head) * (a + head));
  return power * Polynomial(fit, (a - 3.0) / (a + 3.0)) / a;
}

}  // namespace

double Erf(double x) {
  if (x > -1.0 && x < 1.0) return ErfNear0(x);
  return x < 0.0 ? ErfcFrom1(-x) - 1.0 : 1.0 - ErfcFrom1(x);
}

double Erfc(double x) {
  if (x > -1.0 && x < 1.0) return 1.0 - ErfNear0(x);
  return x < 0.0 ? 2.0 - ErfcFrom1(-x) : ErfcFrom1(x);
}

namespace {

struct OurLog {
  double operator()(double x) const { return Log(x); }
};
struct CorrectRoot {
  double operator()(double x) const { return std::sqrt(x); }
};
double QuantileOf(double q, double tail) { return NormalQuantileOf(q, tail, OurLog(), CorrectRoot()); }

}  // namespace

double NormalQuantile(double p) {
  if (!(p > 0.0 && p < 1.0)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return p == 0.0 ? -infinity : p == 1.0 ? infinity : std::numeric_limits<double>::quiet_NaN();
  }
  return QuantileOf(p - 0.5, p < 0.5 ? p : 1.0 - p);
}

// erf(x) = 2 Φ(√2 x) - 1.
double ErfInverse(double x) {
  const double magnitude = x < 0.0 ? -x : x;
  if (!(magnitude < 1.0))
    return magnitude == 1.0 ? x * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return QuantileOf(0.5 * x, 0.5 * (1.0 - magnitude)) * 0.70710678118654752440;
}

double Digamma(double x) {
  if (x != x) return x;
  if (x <= 0.0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    constexpr double kPi = 3.14159265358979323846;
    // Whole periods are taken away first, where the tangent would lose them.
    return Digamma(1.0 - x) - kPi / Tan(kPi * (x - std::floor(x)));
  }
  double value = 0.0;
  for (; x < 10.0; x += 1.0) value -= 1.0 / x;
  // log x - 1/(2x) - Σ B_2k / (2k x^2k).
  const double z = 1.0 / (x * x);
  static constexpr std::array<double, 8> series = {-3617.0 / 8160.0, 1.0 / 12.0,  -691.0 / 32760.0, 1.0 / 132.0,
                                                   -1.0 / 240.0,     1.0 / 252.0, -1.0 / 120.0,     1.0 / 12.0};
  return value + (Log(x) - 0.5 / x - z * Polynomial(series, z));
}

}  // namespace rivulet::math
