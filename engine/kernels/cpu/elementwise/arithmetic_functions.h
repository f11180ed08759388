// Arithmetic on two elements. Integers wrap around, as in TensorFlow; Check refuses a divisor of 0.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "engine/base/status.h"

namespace rivulet {

// The type for which wrap-around is defined.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
struct Add {
  static T Apply(T x, T y) { return static_cast<T>(Wrapping<T>(x) + Wrapping<T>(y)); }
};
template <typename T>
struct Sub {
  static T Apply(T x, T y) { return static_cast<T>(Wrapping<T>(x) - Wrapping<T>(y)); }
};
template <typename T>
struct Mul {
  static T Apply(T x, T y) {
    // Types below int would be multiplied as int, which 65535² overflows.
    if constexpr (std::is_integral_v<T> && sizeof(T) < sizeof(int))
      return static_cast<T>(static_cast<unsigned>(x) * static_cast<unsigned>(y));
    else
      return static_cast<T>(Wrapping<T>(x) * Wrapping<T>(y));
  }
};

template <typename T>
Status CheckDivisor(std::span<const T> divisor) {
  for (T y : divisor)
    if (y == T{0}) return InvalidArgument("an integer is divided by 0");
  return absl::OkStatus();
}

template <typename T>
struct Div {
  static T Apply(T x, T y) { return x / y; }
};
template <typename T>
requires std::is_integral_v<T>
struct Div<T> {
  static Status Check(std::span<const T> y) { return CheckDivisor(y); }
  static T Apply(T x, T y) {
    if constexpr (std::is_signed_v<T>)
      if (y == T{-1}) return Sub<T>::Apply(0, x);  // the smallest integer divided by -1 wraps around
    return static_cast<T>(x / y);
  }
};

template <typename T>
struct FloorDiv {
  static T Apply(T x, T y) { return std::floor(x / y); }
};
template <typename T>
requires std::is_integral_v<T>
struct FloorDiv<T> {
  static Status Check(std::span<const T> y) { return CheckDivisor(y); }
  static T Apply(T x, T y) {
    if constexpr (std::is_signed_v<T>)
      if (y == T{-1}) return Sub<T>::Apply(0, x);
    const T quotient = static_cast<T>(x / y);
    return x % y != 0 && (x < 0) != (y < 0) ? static_cast<T>(quotient - 1) : quotient;
  }
};

template <typename T>
struct DivNoNan {
  static T Apply(T x, T y) { return y == T{0} ? T{0} : x / y; }
};
template <typename T>
struct SquaredDifference {
  static T Apply(T x, T y) {
    const T difference = Sub<T>::Apply(x, y);
    return Mul<T>::Apply(difference, difference);
  }
};
// NaN if either operand is NaN.
template <typename T>
struct Maximum {
  static T Apply(T x, T y) { return x > y || x != x ? x : y; }
};
template <typename T>
struct Minimum {
  static T Apply(T x, T y) { return x < y || x != x ? x : y; }
};
// x - y · floor(x / y), with the sign of y.
template <typename T>
struct FloorMod {
  static T Apply(T x, T y) {
    const T rest = std::fmod(x, y);
    return rest != T{0} && (rest < T{0}) != (y < T{0}) ? rest + y : rest;
  }
};
template <typename T>
requires std::is_integral_v<T>
struct FloorMod<T> {
  static Status Check(std::span<const T> y) { return CheckDivisor(y); }
  static T Apply(T x, T y) {
    if constexpr (std::is_signed_v<T>)
      if (y == T{-1}) return T{0};  // x / y may overflow here
    const T rest = static_cast<T>(x % y);
    return rest != 0 && (rest < 0) != (y < 0) ? static_cast<T>(rest + y) : rest;
  }
};

// x - y · trunc(x / y), with the sign of x.
template <typename T>
struct TruncateMod {
  static T Apply(T x, T y) { return std::fmod(x, y); }
};
template <typename T>
requires std::is_integral_v<T>
struct TruncateMod<T> {
  static Status Check(std::span<const T> y) { return CheckDivisor(y); }
  static T Apply(T x, T y) {
    if constexpr (std::is_signed_v<T>)
      if (y == T{-1}) return T{0};
    return static_cast<T>(x % y);
  }
};

template <typename T>
struct TruncateDiv {
  static T Apply(T x, T y) { return std::trunc(x / y); }
};
template <typename T>
requires std::is_integral_v<T>
struct TruncateDiv<T> : Div<T> {
};

// Integers by repeated squaring; negative exponents are refused.
template <typename T>
struct Pow {
  static T Apply(T x, T y) { return static_cast<T>(std::pow(static_cast<double>(x), static_cast<double>(y))); }
};
template <typename T>
requires std::is_integral_v<T>
struct Pow<T> {
  static Status Check(std::span<const T> y) {
    for (T exponent : y)
      if (exponent < 0) return InvalidArgument("an integer is raised to the negative power {}", exponent);
    return absl::OkStatus();
  }
  static T Apply(T x, T y) {
    T power{1};
    for (; y > 0; y = static_cast<T>(y >> 1), x = Mul<T>::Apply(x, x))
      if (y & 1) power = Mul<T>::Apply(power, x);
    return power;
  }
};

}  // namespace rivulet
