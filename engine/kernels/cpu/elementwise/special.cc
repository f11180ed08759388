// Mathematical functions of floats and doubles that are rarely time-critical, in double without the C library.
#include <cmath>
#include <limits>

#include "engine/base/math.h"
#include "engine/base/trigonometry.h"
#include "engine/kernels/cpu/elementwise/arithmetic_functions.h"
#include "engine/kernels/cpu/strided/elementwise_rows.h"

namespace rivulet {
namespace {

// A function of doubles, also used for floats.
#define RIVULET_FUNCTION(name, expression)         \
  template <typename T>                            \
  struct name {                                    \
    static T Apply(T value) {                      \
      const double x = static_cast<double>(value); \
      return static_cast<T>(expression);           \
    }                                              \
  };
RIVULET_FUNCTION(Sin, math::Sin(x))
RIVULET_FUNCTION(Cos, math::Cos(x))
RIVULET_FUNCTION(Tan, math::Tan(x))
RIVULET_FUNCTION(Asin, math::Asin(x))
RIVULET_FUNCTION(Acos, math::Acos(x))
RIVULET_FUNCTION(Atan, math::Atan(x))
RIVULET_FUNCTION(Sinh, math::Sinh(x))
RIVULET_FUNCTION(Cosh, math::Cosh(x))
RIVULET_FUNCTION(Asinh, math::Asinh(x))
RIVULET_FUNCTION(Acosh, math::Acosh(x))
RIVULET_FUNCTION(Atanh, math::Atanh(x))
RIVULET_FUNCTION(Expm1, math::Expm1(x))
RIVULET_FUNCTION(Erfinv, math::ErfInverse(x))
RIVULET_FUNCTION(Ndtri, math::NormalQuantile(x))
RIVULET_FUNCTION(Digamma, math::Digamma(x))

RIVULET_FUNCTION(Lgamma, math::Lgamma(x))

template <typename T>
struct Reciprocal {
  static T Apply(T x) { return T{1} / x; }
};
template <typename T>
struct Ceil {
  static T Apply(T x) { return std::ceil(x); }
};
// Rounds to the nearest integer, ties to even.
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
  static T Apply(T y, T x) { return static_cast<T>(math::Atan2(static_cast<double>(y), static_cast<double>(x))); }
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
#define RIVULET_BINARY(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareBinaryRows<type, type, name<type>>));
#define RIVULET_FLOATS(M, name) M(name, float) M(name, double)

RIVULET_FLOATS(RIVULET_UNARY, Sin)
RIVULET_FLOATS(RIVULET_UNARY, Cos)
RIVULET_FLOATS(RIVULET_UNARY, Tan)
RIVULET_FLOATS(RIVULET_UNARY, Asin)
RIVULET_FLOATS(RIVULET_UNARY, Acos)
RIVULET_FLOATS(RIVULET_UNARY, Atan)
RIVULET_FLOATS(RIVULET_UNARY, Sinh)
RIVULET_FLOATS(RIVULET_UNARY, Cosh)
RIVULET_FLOATS(RIVULET_UNARY, Asinh)
RIVULET_FLOATS(RIVULET_UNARY, Acosh)
RIVULET_FLOATS(RIVULET_UNARY, Atanh)
RIVULET_FLOATS(RIVULET_UNARY, Lgamma)
RIVULET_FLOATS(RIVULET_UNARY, Digamma)
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
RIVULET_FLOATS(RIVULET_BINARY, Atan2)

// Other names for the same functions.
RIVULET_KERNEL("Inv", Device::kCpu, float, (PrepareUnaryRows<float, float, Reciprocal<float>>));
RIVULET_KERNEL("Inv", Device::kCpu, double, (PrepareUnaryRows<double, double, Reciprocal<double>>));
RIVULET_KERNEL("Rint", Device::kCpu, float, (PrepareUnaryRows<float, float, Round<float>>));
RIVULET_KERNEL("Rint", Device::kCpu, double, (PrepareUnaryRows<double, double, Round<double>>));
RIVULET_KERNEL("Mod", Device::kCpu, float, (PrepareBinaryRows<float, float, TruncateMod<float>>));
RIVULET_KERNEL("Mod", Device::kCpu, double, (PrepareBinaryRows<double, double, TruncateMod<double>>));

}  // namespace
}  // namespace rivulet
