// Mathematics of single floats and doubles that is seldom hot. Where the C library computes, it does so in double, and
// the portable policy refuses it.
#include <cmath>
#include <limits>

#include "engine/kernels/cpu/arithmetic_functions.h"
#include "engine/kernels/cpu/elementwise_rows.h"
#include "engine/kernels/cpu/math.h"

namespace rivulet {
namespace {

// A function of doubles, for float too.
#define RIVULET_FUNCTION(name, expression)         \
  template <typename T>                            \
  struct name {                                    \
    static T Apply(T value) {                      \
      const double x = static_cast<double>(value); \
      return static_cast<T>(expression);           \
    }                                              \
  };
RIVULET_FUNCTION(Sin, std::sin(x))
RIVULET_FUNCTION(Cos, std::cos(x))
RIVULET_FUNCTION(Tan, std::tan(x))
RIVULET_FUNCTION(Asin, std::asin(x))
RIVULET_FUNCTION(Acos, std::acos(x))
RIVULET_FUNCTION(Atan, std::atan(x))
RIVULET_FUNCTION(Sinh, std::sinh(x))
RIVULET_FUNCTION(Cosh, std::cosh(x))
RIVULET_FUNCTION(Asinh, std::asinh(x))
RIVULET_FUNCTION(Acosh, std::acosh(x))
RIVULET_FUNCTION(Atanh, std::atanh(x))
RIVULET_FUNCTION(Expm1, math::Expm1(x))
RIVULET_FUNCTION(Erfinv, math::ErfInverse(x))
RIVULET_FUNCTION(Ndtri, math::NormalQuantile(x))
RIVULET_FUNCTION(Digamma, math::Digamma(x))

double LogGamma(double x) {
  int sign;  // std::lgamma would write a global
  return lgamma_r(x, &sign);
}
RIVULET_FUNCTION(Lgamma, LogGamma(x))

template <typename T>
struct Reciprocal {
  static T Apply(T x) { return T{1} / x; }
};
template <typename T>
struct Ceil {
  static T Apply(T x) { return std::ceil(x); }
};
// To the nearest integer, halves to the even one.
template <typename T>
struct Round {
  static T Apply(T x) { return std::nearbyint(x); }
};
template <typename T>
struct IsNan {
  static bool Apply(T x) { return x != x; }
};
template <typename T>
struct IsInf {
  static bool Apply(T x) { return std::abs(x) == std::numeric_limits<T>::infinity(); }
};
template <typename T>
struct IsFinite {
  static bool Apply(T x) { return std::abs(x) < std::numeric_limits<T>::infinity(); }
};

template <typename T>
struct Atan2 {
  static T Apply(T y, T x) { return static_cast<T>(std::atan2(static_cast<double>(y), static_cast<double>(x))); }
};
template <typename T>
struct Xdivy {
  static T Apply(T x, T y) { return x == T{0} ? T{0} : x / y; }
};
template <typename T>
struct Xlogy {
  static T Apply(T x, T y) {
    return x == T{0} ? T{0} : static_cast<T>(static_cast<double>(x) * math::Log(static_cast<double>(y)));
  }
};
template <typename T>
struct Xlog1py {
  static T Apply(T x, T y) {
    return x == T{0} ? T{0} : static_cast<T>(static_cast<double>(x) * math::Log1p(static_cast<double>(y)));
  }
};
template <typename T>
struct MulNoNan {
  static T Apply(T x, T y) { return y == T{0} ? T{0} : x * y; }
};

#define RIVULET_UNARY(name, type) RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareUnaryRows<type, type, name<type>>));
#define RIVULET_PREDICATE(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareUnaryRows<type, bool, name<type>>));
#define RIVULET_LIBRARY(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (NotPortable<PrepareUnaryRows<type, type, name<type>>>));
#define RIVULET_BINARY(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareBinaryRows<type, type, name<type>>));
#define RIVULET_LIBRARY_BINARY(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (NotPortable<PrepareBinaryRows<type, type, name<type>>>));
#define RIVULET_FLOATS(M, name) M(name, float) M(name, double)

RIVULET_FLOATS(RIVULET_LIBRARY, Sin)
RIVULET_FLOATS(RIVULET_LIBRARY, Cos)
RIVULET_FLOATS(RIVULET_LIBRARY, Tan)
RIVULET_FLOATS(RIVULET_LIBRARY, Asin)
RIVULET_FLOATS(RIVULET_LIBRARY, Acos)
RIVULET_FLOATS(RIVULET_LIBRARY, Atan)
RIVULET_FLOATS(RIVULET_LIBRARY, Sinh)
RIVULET_FLOATS(RIVULET_LIBRARY, Cosh)
RIVULET_FLOATS(RIVULET_LIBRARY, Asinh)
RIVULET_FLOATS(RIVULET_LIBRARY, Acosh)
RIVULET_FLOATS(RIVULET_LIBRARY, Atanh)
RIVULET_FLOATS(RIVULET_LIBRARY, Lgamma)
RIVULET_FLOATS(RIVULET_LIBRARY, Digamma)
RIVULET_FLOATS(RIVULET_UNARY, Expm1)
RIVULET_FLOATS(RIVULET_UNARY, Erfinv)
RIVULET_FLOATS(RIVULET_UNARY, Ndtri)
RIVULET_FLOATS(RIVULET_UNARY, Reciprocal)
RIVULET_FLOATS(RIVULET_UNARY, Ceil)
RIVULET_FLOATS(RIVULET_UNARY, Round)
RIVULET_FLOATS(RIVULET_PREDICATE, IsNan)
RIVULET_FLOATS(RIVULET_PREDICATE, IsInf)
RIVULET_FLOATS(RIVULET_PREDICATE, IsFinite)
RIVULET_FLOATS(RIVULET_BINARY, Xdivy)
RIVULET_FLOATS(RIVULET_BINARY, Xlogy)
RIVULET_FLOATS(RIVULET_BINARY, Xlog1py)
RIVULET_FLOATS(RIVULET_BINARY, MulNoNan)
RIVULET_FLOATS(RIVULET_BINARY, FloorMod)
RIVULET_FLOATS(RIVULET_BINARY, TruncateMod)
RIVULET_FLOATS(RIVULET_BINARY, TruncateDiv)
RIVULET_FLOATS(RIVULET_LIBRARY_BINARY, Atan2)

// Other names of the same functions.
RIVULET_KERNEL("Inv", Device::kCpu, float, (PrepareUnaryRows<float, float, Reciprocal<float>>));
RIVULET_KERNEL("Inv", Device::kCpu, double, (PrepareUnaryRows<double, double, Reciprocal<double>>));
RIVULET_KERNEL("Rint", Device::kCpu, float, (PrepareUnaryRows<float, float, Round<float>>));
RIVULET_KERNEL("Rint", Device::kCpu, double, (PrepareUnaryRows<double, double, Round<double>>));
RIVULET_KERNEL("Mod", Device::kCpu, float, (PrepareBinaryRows<float, float, TruncateMod<float>>));
RIVULET_KERNEL("Mod", Device::kCpu, double, (PrepareBinaryRows<double, double, TruncateMod<double>>));

}  // namespace
}  // namespace rivulet
