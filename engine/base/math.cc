#include "engine/base/math.h"

#include <array>
#include <cstddef>
#include <limits>

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

// With q = p - 0.5 and `tail` = the smaller of p and 1 - p, each as exact as the caller has it.
double QuantileOf(double q, double tail) {
  if (q > -0.425 && q < 0.425) {
    const double r = 0.180625 - q * q;
    static constexpr std::array<double, 8> a = {
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
        1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0};
    static constexpr std::array<double, 8> b = {
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
        5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0};
    return q * Polynomial(a, r) / Polynomial(b, r);
  }
  double r = std::sqrt(-Log(tail));
  double value = 0.0;
  if (r <= 5.0) {
    r -= 1.6;
    static constexpr std::array<double, 8> c = {
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
        3.64784832476320460504e0,  5.76949722146069140550e0,  4.63033784615654529590e0,  1.42343711074968357734e0};
    static constexpr std::array<double, 8> d = {
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
        6.89767334985100004550e-1, 1.67638483018380384940e0,  2.05319162663775882187e0,  1.0};
    value = Polynomial(c, r) / Polynomial(d, r);
  } else {
    r -= 5.0;
    static constexpr std::array<double, 8> e = {
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
        2.96560571828504891230e-1, 1.78482653991729133580e0,  5.46378491116411436990e0,  6.65790464350110377720e0};
    static constexpr std::array<double, 8> f = {
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
        1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};
    value = Polynomial(e, r) / Polynomial(f, r);
  }
  return q < 0.0 ? -value : value;
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
