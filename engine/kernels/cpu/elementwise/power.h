// Powers from multiplications and the exponentials and logarithms of math.h: the same bits on all machines.
#pragma once

#include <cmath>
#include <limits>

#include "engine/base/math.h"

namespace rivulet {

// x to an integer power, by squaring.
inline double WholePower(double x, int n) {
  double power = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2 != 0) power *= x;
  return power;
}

// x^y with C's special values. Relative error below 1e-15 if y is an integer up to 64 in magnitude, else below 1e-15 +
// |y log x| · 3e-16.
inline double PowerOf(double x, double y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  const double size = std::abs(x);
  if (std::abs(y) == kInfinity) return size == 1 ? 1 : (size > 1) == (y > 0) ? kInfinity : 0;
  const bool whole = std::floor(y) == y;
  const bool odd = whole && std::floor(y * 0.5) != y * 0.5;
  if (x < 0 && !whole && size != kInfinity) return std::numeric_limits<double>::quiet_NaN();
  double power;
  if (size == 0 || size == kInfinity) {
    power = (size == 0) == (y > 0) ? 0 : kInfinity;
  } else if (whole && std::abs(y) <= 64) {
    const double direct = WholePower(size, static_cast<int>(std::abs(y)));
    power = y < 0 ? 1 / direct : direct;
  } else {
    power = math::Exp(y * math::Log(size));
  }
  return odd && std::signbit(x) ? -power : power;
}

}  // namespace rivulet
