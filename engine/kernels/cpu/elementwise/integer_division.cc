// Arithmetic and comparisons of integer types that networks rarely compute in: int8, int16, uint16, uint32, uint64;
// and, for all integers, rare operations.
#include "engine/kernels/cpu/elementwise/arithmetic_functions.h"
#include "engine/kernels/cpu/elementwise/comparison_functions.h"
#include "engine/kernels/cpu/strided/elementwise_rows.h"

namespace rivulet {
namespace {

template <typename T>
struct Neg {
  static T Apply(T x) { return Sub<T>::Apply(T{0}, x); }
};
template <typename T>
struct Abs {
  static T Apply(T x) { return x < 0 ? Neg<T>::Apply(x) : x; }
};
template <typename T>
struct Sign {
  static T Apply(T x) { return x > 0 ? T{1} : x < 0 ? T{-1} : T{0}; }
};
template <typename T>
struct Square {
  static T Apply(T x) { return Mul<T>::Apply(x, x); }
};
template <typename T>
struct Same {
  static T Apply(T x) { return x; }
};

template <typename T>
struct And {
  static T Apply(T x, T y) { return static_cast<T>(x & y); }
};
template <typename T>
struct Or {
  static T Apply(T x, T y) { return static_cast<T>(x | y); }
};
template <typename T>
struct Xor {
  static T Apply(T x, T y) { return static_cast<T>(x ^ y); }
};
template <typename T>
struct Invert {
  static T Apply(T x) { return static_cast<T>(~x); }
};
// Clamps a shift distance to [0, bits), so that every distance is defined.
template <typename T>
int Distance(T y) {
  constexpr int kLast = static_cast<int>(sizeof(T)) * 8 - 1;
  if constexpr (std::is_signed_v<T>)
    if (y < 0) return 0;
  return y > static_cast<T>(kLast) ? kLast : static_cast<int>(y);
}
template <typename T>
struct LeftShift {
  static T Apply(T x, T y) {
    return static_cast<T>(static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(x)) << Distance(y));
  }
};
template <typename T>
struct RightShift {
  static T Apply(T x, T y) { return static_cast<T>(x >> Distance(y)); }
};

#define RIVULET_BINARY(name, function, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareBinaryRows<type, type, function<type>>));
#define RIVULET_COMPARE(name, function, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareBinaryRows<type, bool, function<type>>));
#define RIVULET_UNARY(name, function, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareUnaryRows<type, type, function<type>>));

#define RIVULET_NARROW(M, name, function) \
  M(name, function, int8_t)               \
  M(name, function, int16_t) M(name, function, uint16_t) M(name, function, uint32_t) M(name, function, uint64_t)
#define RIVULET_SIGNED(M, name, function) \
  M(name, function, int8_t) M(name, function, int16_t) M(name, function, int32_t) M(name, function, int64_t)
#define RIVULET_INTEGERS(M, name, function) \
  RIVULET_NARROW(M, name, function)         \
  M(name, function, int32_t) M(name, function, int64_t) M(name, function, uint8_t)

RIVULET_NARROW(RIVULET_BINARY, "Add", Add)
RIVULET_NARROW(RIVULET_BINARY, "AddV2", Add)
RIVULET_NARROW(RIVULET_BINARY, "Sub", Sub)
RIVULET_NARROW(RIVULET_BINARY, "Mul", Mul)
RIVULET_NARROW(RIVULET_BINARY, "Div", Div)
RIVULET_NARROW(RIVULET_BINARY, "FloorDiv", FloorDiv)
RIVULET_BINARY("FloorDiv", FloorDiv, uint8_t)
RIVULET_NARROW(RIVULET_BINARY, "Maximum", Maximum)
RIVULET_NARROW(RIVULET_BINARY, "Minimum", Minimum)
RIVULET_INTEGERS(RIVULET_BINARY, "TruncateDiv", TruncateDiv)
RIVULET_INTEGERS(RIVULET_BINARY, "FloorMod", FloorMod)
RIVULET_INTEGERS(RIVULET_BINARY, "Mod", TruncateMod)
RIVULET_INTEGERS(RIVULET_BINARY, "TruncateMod", TruncateMod)
RIVULET_SIGNED(RIVULET_BINARY, "Pow", Pow)

RIVULET_NARROW(RIVULET_COMPARE, "Equal", Equal)
RIVULET_NARROW(RIVULET_COMPARE, "NotEqual", NotEqual)
RIVULET_NARROW(RIVULET_COMPARE, "Less", Less)
RIVULET_NARROW(RIVULET_COMPARE, "LessEqual", LessEqual)
RIVULET_NARROW(RIVULET_COMPARE, "Greater", Greater)
RIVULET_NARROW(RIVULET_COMPARE, "GreaterEqual", GreaterEqual)

RIVULET_UNARY("Neg", Neg, int8_t)
RIVULET_UNARY("Neg", Neg, int16_t)
RIVULET_UNARY("Abs", Abs, int8_t)
RIVULET_UNARY("Abs", Abs, int16_t)
RIVULET_UNARY("Sign", Sign, int8_t)
RIVULET_UNARY("Sign", Sign, int16_t)
RIVULET_NARROW(RIVULET_UNARY, "Square", Square)
RIVULET_UNARY("Square", Square, uint8_t)
RIVULET_SIGNED(RIVULET_UNARY, "Round", Same)

RIVULET_INTEGERS(RIVULET_BINARY, "BitwiseAnd", And)
RIVULET_INTEGERS(RIVULET_BINARY, "BitwiseOr", Or)
RIVULET_INTEGERS(RIVULET_BINARY, "BitwiseXor", Xor)
RIVULET_INTEGERS(RIVULET_UNARY, "Invert", Invert)
RIVULET_INTEGERS(RIVULET_BINARY, "LeftShift", LeftShift)
RIVULET_INTEGERS(RIVULET_BINARY, "RightShift", RightShift)

}  // namespace
}  // namespace rivulet
