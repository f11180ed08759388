// Changes of element type. Floating to integer rounds towards zero and is clamped to the integer's range, NaN to 0, so
// that no value is undefined.
#include <limits>

#include "engine/kernels/cpu/elementwise.h"

namespace rivulet {
namespace {

template <typename From, typename To>
struct Convert {
  static To Apply(From x) {
    if constexpr (std::is_same_v<To, bool>) {
      return x != From{0};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // The largest To may not be a From: compare with the power of two above it.
      constexpr From kAbove = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
      if (!(x > static_cast<From>(std::numeric_limits<To>::min()) - From{1} ||
            x >= static_cast<From>(std::numeric_limits<To>::min())))
        return x != x ? To{0} : std::numeric_limits<To>::min();
      if (x >= kAbove) return std::numeric_limits<To>::max();
      return static_cast<To>(x);
    } else {
      return static_cast<To>(x);
    }
  }
};

template <typename From>
StatusOr<Prepared> PrepareCast(const NodeView& node, const KernelPolicy& policy) {
  switch (node.outputs[0].dtype) {
    case DType::kFloat32:
      return PrepareUnary<From, float, Convert<From, float>>(node, policy);
    case DType::kFloat64:
      return PrepareUnary<From, double, Convert<From, double>>(node, policy);
    case DType::kInt32:
      return PrepareUnary<From, int32_t, Convert<From, int32_t>>(node, policy);
    case DType::kInt64:
      return PrepareUnary<From, int64_t, Convert<From, int64_t>>(node, policy);
    case DType::kUint8:
      return PrepareUnary<From, uint8_t, Convert<From, uint8_t>>(node, policy);
    case DType::kBool:
      return PrepareUnary<From, bool, Convert<From, bool>>(node, policy);
    default:
      return Unimplemented("a cast from {} to {}", Name(node.inputs[0].dtype), Name(node.outputs[0].dtype));
  }
}

RIVULET_KERNEL("Cast", Device::kCpu, float, PrepareCast<float>);
RIVULET_KERNEL("Cast", Device::kCpu, double, PrepareCast<double>);
RIVULET_KERNEL("Cast", Device::kCpu, int32_t, PrepareCast<int32_t>);
RIVULET_KERNEL("Cast", Device::kCpu, int64_t, PrepareCast<int64_t>);
RIVULET_KERNEL("Cast", Device::kCpu, uint8_t, PrepareCast<uint8_t>);
RIVULET_KERNEL("Cast", Device::kCpu, bool, PrepareCast<bool>);

}  // namespace
}  // namespace rivulet
