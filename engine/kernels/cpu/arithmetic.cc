// Arithmetic on two tensors. Integers wrap around, as in TensorFlow.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

// The type in which wrap-around is defined.
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
  static T Apply(T x, T y) { return static_cast<T>(Wrapping<T>(x) * Wrapping<T>(y)); }
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
      if (y == T{-1}) return Sub<T>::Apply(0, x);  // the smallest integer over -1 wraps around
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
// NaN in either operand stays NaN.
template <typename T>
struct Maximum {
  static T Apply(T x, T y) { return x > y || x != x ? x : y; }
};
template <typename T>
struct Minimum {
  static T Apply(T x, T y) { return x < y || x != x ? x : y; }
};
template <typename T>
struct Pow {
  static T Apply(T x, T y) { return static_cast<T>(std::pow(static_cast<double>(x), static_cast<double>(y))); }
};

template <typename T>
StatusOr<Prepared> PreparePow(const NodeView& node, const KernelPolicy& policy) {
  if (policy.portable) return Unimplemented("Pow is the C library's and differs between machines: no portable kernel");
  return PrepareBinary<T, T, Pow<T>>(node, policy);
}

// The sum of any number of tensors of one shape, from the first to the last.
template <typename T>
class AddNKernel final : public Kernel {
 public:
  explicit AddNKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    T* out = OutputOf<T>(context, 0);
    // A block of sums at a time: so no element is written before it was read from every input, and the output may lie
    // in the place of any of them.
    constexpr int64_t kBlock = 512;
    T sum[kBlock];
    for (int64_t begin = 0; begin < count_; begin += kBlock) {
      const int64_t count = std::min(kBlock, count_ - begin);
      std::copy_n(InputOf<T>(context, 0) + begin, count, sum);
      for (size_t input = 1; input < context.inputs.size(); ++input) {
        const T* next = InputOf<T>(context, input) + begin;
        for (int64_t i = 0; i < count; ++i) sum[i] = Add<T>::Apply(sum[i], next[i]);
      }
      std::copy_n(sum, count, out + begin);
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareAddN(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<AddNKernel<T>>(node.outputs[0].shape.elements());
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements()) * static_cast<double>(node.inputs.size() - 1);
  return prepared;
}

#define RIVULET_BINARY_KERNEL(name, function, type) \
  RIVULET_KERNEL(name, Device::kCpu, type, (PrepareBinary<type, type, function<type>>));
#define RIVULET_FLOATS(M, name, function) M(name, function, float) M(name, function, double)
#define RIVULET_SIGNED(M, name, function) \
  RIVULET_FLOATS(M, name, function) M(name, function, int32_t) M(name, function, int64_t)
#define RIVULET_NUMBERS(M, name, function) RIVULET_SIGNED(M, name, function) M(name, function, uint8_t)

RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Add", Add)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "AddV2", Add)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Sub", Sub)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Mul", Mul)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Div", Div)
RIVULET_FLOATS(RIVULET_BINARY_KERNEL, "RealDiv", Div)
RIVULET_FLOATS(RIVULET_BINARY_KERNEL, "DivNoNan", DivNoNan)
RIVULET_SIGNED(RIVULET_BINARY_KERNEL, "FloorDiv", FloorDiv)
RIVULET_SIGNED(RIVULET_BINARY_KERNEL, "SquaredDifference", SquaredDifference)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Maximum", Maximum)
RIVULET_NUMBERS(RIVULET_BINARY_KERNEL, "Minimum", Minimum)

RIVULET_KERNEL("Pow", Device::kCpu, float, PreparePow<float>);
RIVULET_KERNEL("Pow", Device::kCpu, double, PreparePow<double>);

RIVULET_KERNEL("AddN", Device::kCpu, float, PrepareAddN<float>);
RIVULET_KERNEL("AddN", Device::kCpu, double, PrepareAddN<double>);
RIVULET_KERNEL("AddN", Device::kCpu, int32_t, PrepareAddN<int32_t>);
RIVULET_KERNEL("AddN", Device::kCpu, int64_t, PrepareAddN<int64_t>);
RIVULET_KERNEL("AddN", Device::kCpu, uint8_t, PrepareAddN<uint8_t>);

}  // namespace
}  // namespace rivulet
