// Elementwise functions with the CPU's semantics. Integers wrap around, a NaN stays one, and functions that are exact
// there (sum, quotient, root, comparison) are exact here.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/kernels/cuda/device_code.h"

namespace rivulet::gpu::functions {

// The type for which sums and products wrap around.
template <typename T, bool = std::is_integral_v<T>>
struct WrappingType {
  using Type = T;
};
template <typename T>
struct WrappingType<T, true> {
  using Type = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
};
template <typename T>
using Wrapping = typename WrappingType<T>::Type;

// A function of x and the op's single attribute.
#define RIVULET_GPU_UNARY(name, expression)                 \
  struct name {                                             \
    template <typename T>                                   \
    static __device__ T Of(T x, [[maybe_unused]] T p) {     \
      [[maybe_unused]] constexpr T zero = T(0), one = T(1); \
      return static_cast<T>(expression);                    \
    }                                                       \
  };
#define RIVULET_GPU_BINARY(name, expression)                 \
  struct name {                                              \
    template <typename T>                                    \
    static __device__ T Of(T x, T y, [[maybe_unused]] T p) { \
      [[maybe_unused]] constexpr T zero = T(0), one = T(1);  \
      return static_cast<T>(expression);                     \
    }                                                        \
  };
#define RIVULET_GPU_COMPARISON(name, op)     \
  struct name {                              \
    template <typename T>                    \
    static __device__ bool Of(T x, T y, T) { \
      return x op y;                         \
    }                                        \
  };

__device__ inline float ExpOf(float x) { return expf(x); }
__device__ inline double ExpOf(double x) { return exp(x); }
__device__ inline float Expm1Of(float x) { return expm1f(x); }
__device__ inline double Expm1Of(double x) { return expm1(x); }
__device__ inline float LogOf(float x) { return logf(x); }
__device__ inline double LogOf(double x) { return log(x); }
__device__ inline float Log1pOf(float x) { return log1pf(x); }
__device__ inline double Log1pOf(double x) { return log1p(x); }
__device__ inline float TanhOf(float x) { return tanhf(x); }
__device__ inline double TanhOf(double x) { return tanh(x); }
__device__ inline float ErfOf(float x) { return erff(x); }
__device__ inline double ErfOf(double x) { return erf(x); }
__device__ inline float RootOf(float x) { return sqrtf(x); }
__device__ inline double RootOf(double x) { return sqrt(x); }
template <typename T>
__device__ inline T AbsOf(T x) {
  return x < T(0) ? static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x)) : x;
}
template <>
__device__ inline float AbsOf(float x) {
  return fabsf(x);
}
template <>
__device__ inline double AbsOf(double x) {
  return fabs(x);
}
// Both branches avoid the exponential of a large number, which would make inf / inf.
template <typename T>
__device__ inline T SigmoidOf(T x) {
  const T e = ExpOf(-AbsOf(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
template <typename T>
__device__ inline T SoftplusOf(T x) {
  return (x > T(0) ? x : T(0)) + Log1pOf(ExpOf(-AbsOf(x)));
}

RIVULET_GPU_UNARY(Neg, static_cast<Wrapping<T>>(std::is_integral_v<T> ? Wrapping<T>(0) - static_cast<Wrapping<T>>(x)
                                                                      : -static_cast<Wrapping<T>>(x)))
RIVULET_GPU_UNARY(Abs, AbsOf(x))
RIVULET_GPU_UNARY(Sign, x > zero ? one : x < zero ? static_cast<T>(-one) : x == zero ? zero : x)
RIVULET_GPU_UNARY(Square, static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x))
RIVULET_GPU_UNARY(Sqrt, RootOf(x))
RIVULET_GPU_UNARY(Rsqrt, one / RootOf(x))
RIVULET_GPU_UNARY(Reciprocal, one / x)
RIVULET_GPU_UNARY(Floor, floor(x))
RIVULET_GPU_UNARY(Ceil, ceil(x))
RIVULET_GPU_UNARY(Round, rint(x))
RIVULET_GPU_UNARY(Exp, ExpOf(x))
RIVULET_GPU_UNARY(Expm1, Expm1Of(x))
RIVULET_GPU_UNARY(Log, LogOf(x))
RIVULET_GPU_UNARY(Log1p, Log1pOf(x))
RIVULET_GPU_UNARY(Tanh, TanhOf(x))
RIVULET_GPU_UNARY(Sigmoid, SigmoidOf(x))
RIVULET_GPU_UNARY(Softplus, SoftplusOf(x))
RIVULET_GPU_UNARY(Softsign, x / (AbsOf(x) + one))
RIVULET_GPU_UNARY(Erf, ErfOf(x))
RIVULET_GPU_UNARY(Relu, x < zero ? zero : x)
RIVULET_GPU_UNARY(Relu6, x<zero ? zero : x> T(6) ? T(6) : x)
RIVULET_GPU_UNARY(LeakyRelu, x > zero ? x : x * p)
RIVULET_GPU_UNARY(Elu, x > zero ? x : Expm1Of(x))
// Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
RIVULET_GPU_UNARY(Selu, x > zero ? x * T(1.0507009873554804934193349852946)
                                 : Expm1Of(x) * T(1.7580993408473768599402175208123))
RIVULET_GPU_UNARY(Gelu, T(0.5) * x * (one + ErfOf(x * T(0.70710678118654752440))))
// Hendrycks and Gimpel, "Gaussian error linear units" (2016): √(2/π) · (x + 0.044715 x³).
RIVULET_GPU_UNARY(GeluTanh, T(0.5) * x * (one + TanhOf(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))))

RIVULET_GPU_BINARY(AddV2, static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y))
RIVULET_GPU_BINARY(Sub, static_cast<Wrapping<T>>(x) - static_cast<Wrapping<T>>(y))
RIVULET_GPU_BINARY(Mul, static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y))
RIVULET_GPU_BINARY(RealDiv, x / y)
RIVULET_GPU_BINARY(DivNoNan, y == zero ? zero : x / y)
RIVULET_GPU_BINARY(SquaredDifference, Square::Of<T>(Sub::Of<T>(x, y, p), p))
RIVULET_GPU_BINARY(Maximum, x > y || x != x ? x : y)
RIVULET_GPU_BINARY(Minimum, x < y || x != x ? x : y)
RIVULET_GPU_BINARY(Pow, pow(static_cast<double>(x), static_cast<double>(y)))
RIVULET_GPU_BINARY(MulNoNan, y == zero ? zero : x * y)
// Gradients in the order of their ops' inputs: of an output y and dy, or of a gradient and x.
RIVULET_GPU_BINARY(TanhGrad, y*(one - x * x))
RIVULET_GPU_BINARY(SigmoidGrad, y* x*(one - x))
RIVULET_GPU_BINARY(SoftplusGrad, x* SigmoidOf(y))
RIVULET_GPU_BINARY(SqrtGrad, y == zero ? zero : T(0.5) * y / x)
RIVULET_GPU_BINARY(RsqrtGrad, y == zero ? zero : T(-0.5) * (y * x) * (x * x))
RIVULET_GPU_BINARY(ReciprocalGrad, y == zero ? zero : -x * y * x)
RIVULET_GPU_BINARY(SoftsignGrad, x / ((AbsOf(y) + one) * (AbsOf(y) + one)))
RIVULET_GPU_BINARY(ReluGrad, y > zero ? x : zero)
RIVULET_GPU_BINARY(Relu6Grad, y > zero && y < T(6) ? x : zero)
RIVULET_GPU_BINARY(LeakyReluGrad, y > zero ? x : x * p)
RIVULET_GPU_BINARY(EluGrad, y < zero ? x * (y + one) : x)
RIVULET_GPU_BINARY(SeluGrad,
                   x*(y < zero ? y + T(1.7580993408473768599402175208123) : T(1.0507009873554804934193349852946)))
// Φ(y) + y · φ(y).
RIVULET_GPU_BINARY(GeluGrad, x*(T(0.5) * (one + ErfOf(y * T(0.70710678118654752440))) +
                                y * T(0.39894228040143267794) * ExpOf(T(-0.5) * y * y)))
struct GeluTanhGrad {
  template <typename T>
  static __device__ T Of(T gradient, T x, T) {
    constexpr T kRoot = T(0.79788456080286535588), kCube = T(0.044715), one = T(1);
    const T t = TanhOf(kRoot * (x + kCube * x * x * x));
    const T slope = kRoot * (one + T(3) * kCube * x * x);
    return gradient * T(0.5) * (one + t + x * (one - t * t) * slope);
  }
};

RIVULET_GPU_COMPARISON(Equal, ==)
RIVULET_GPU_COMPARISON(NotEqual, !=)
RIVULET_GPU_COMPARISON(Less, <)
RIVULET_GPU_COMPARISON(LessEqual, <=)
RIVULET_GPU_COMPARISON(Greater, >)
RIVULET_GPU_COMPARISON(GreaterEqual, >=)
RIVULET_GPU_COMPARISON(LogicalAnd, &&)
RIVULET_GPU_COMPARISON(LogicalOr, ||)

}  // namespace rivulet::gpu::functions
