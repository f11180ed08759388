// Functions of each element, the gradients that are ops in TensorFlow, and half the sum of squares.
#include <cmath>

#include "engine/base/math.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
struct Neg {
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
    else
      return -x;
  }
};
template <typename T>
struct Abs {
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg<T>::Apply(x) : x;
    else
      return std::abs(x);
  }
};
template <typename T>
struct Sign {
  static T Apply(T x) { return x > T{0} ? T{1} : x < T{0} ? T{-1} : x == T{0} ? T{0} : x; }
};
template <typename T>
struct Square {
  static T Apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(x) * static_cast<Unsigned>(x));
    } else {
      return x * x;
    }
  }
};
template <typename T>
struct Sqrt {
  static T Apply(T x) { return std::sqrt(x); }
};
template <typename T>
struct Rsqrt {
  static T Apply(T x) { return T{1} / std::sqrt(x); }
};
template <typename T>
struct Floor {
  static T Apply(T x) { return std::floor(x); }
};

#define RIVULET_MATH_FUNCTION(name)                                                    \
  template <typename T>                                                                \
  struct name {                                                                        \
    static T Apply(T x) { return static_cast<T>(math::name(static_cast<double>(x))); } \
  };
// For doubles; unary_transcendental.cc has those for floats.
RIVULET_MATH_FUNCTION(Exp)
RIVULET_MATH_FUNCTION(Log)
RIVULET_MATH_FUNCTION(Log1p)
RIVULET_MATH_FUNCTION(Tanh)
RIVULET_MATH_FUNCTION(Sigmoid)
RIVULET_MATH_FUNCTION(Softplus)

template <typename T>
struct TanhGrad {
  static T Apply(T y, T dy) { return dy * (T{1} - y * y); }
};
template <typename T>
struct SigmoidGrad {
  static T Apply(T y, T dy) { return dy * y * (T{1} - y); }
};
template <typename T>
struct SoftplusGrad {
  static T Apply(T dy, T x) { return static_cast<T>(static_cast<double>(dy) * math::Sigmoid(static_cast<double>(x))); }
};
// A zero gradient gives zero, even where the slope is infinite.
template <typename T>
struct SqrtGrad {
  static T Apply(T y, T dy) { return dy == T{0} ? T{0} : T{0.5} * dy / y; }
};
template <typename T>
struct RsqrtGrad {
  static T Apply(T y, T dy) { return dy == T{0} ? T{0} : T{-0.5} * (dy * y) * (y * y); }
};
template <typename T>
struct ReciprocalGrad {
  static T Apply(T y, T dy) { return dy == T{0} ? T{0} : -y * dy * y; }
};
template <typename T>
using InvGrad = ReciprocalGrad<T>;

#define RIVULET_UNARY_KERNEL(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareUnary<type, type, name<type>>));
#define RIVULET_FLOATS(M, name) M(name, float) M(name, double)
#define RIVULET_SIGNED(M, name) RIVULET_FLOATS(M, name) M(name, int32_t) M(name, int64_t)
#define RIVULET_GRAD_KERNEL(name, type) \
  RIVULET_KERNEL(#name, Device::kCpu, type, (PrepareBinary<type, type, name<type>>));

RIVULET_SIGNED(RIVULET_UNARY_KERNEL, Neg)
RIVULET_SIGNED(RIVULET_UNARY_KERNEL, Abs)
RIVULET_SIGNED(RIVULET_UNARY_KERNEL, Sign)
RIVULET_SIGNED(RIVULET_UNARY_KERNEL, Square)
RIVULET_FLOATS(RIVULET_UNARY_KERNEL, Sqrt)
RIVULET_FLOATS(RIVULET_UNARY_KERNEL, Rsqrt)
RIVULET_FLOATS(RIVULET_UNARY_KERNEL, Floor)
RIVULET_UNARY_KERNEL(Exp, double)
RIVULET_UNARY_KERNEL(Log, double)
RIVULET_UNARY_KERNEL(Log1p, double)
RIVULET_UNARY_KERNEL(Tanh, double)
RIVULET_UNARY_KERNEL(Sigmoid, double)
RIVULET_UNARY_KERNEL(Softplus, double)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, TanhGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, SigmoidGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, SoftplusGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, SqrtGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, RsqrtGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, ReciprocalGrad)
RIVULET_FLOATS(RIVULET_GRAD_KERNEL, InvGrad)

}  // namespace
}  // namespace rivulet
