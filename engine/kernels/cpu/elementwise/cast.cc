// Conversions of element types. Floating point to integer rounds towards zero and is clamped to the integer's range,
// NaN to 0, so that every value is defined.
#include <limits>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/every_type.h"

namespace rivulet {
namespace {

template <typename T>
concept Is16Bit = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

template <typename From, typename To>
struct Convert {
  static To Apply(From x) {
    if constexpr (std::is_same_v<From, To>) {
      return x;
    } else if constexpr (Is16Bit<From>) {
      return Convert<float, To>::Apply(x);
    } else if constexpr (Is16Bit<To>) {
      return To(static_cast<float>(x));
    } else if constexpr (std::is_same_v<To, bool>) {
      return x != From{0};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // From may not represent the largest To: compares with the power of two above it.
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

// Between float and a 16-bit type: the vectorised loops in tensor/float16.
class Convert16Kernel final : public Kernel {
 public:
  Convert16Kernel(DType from, DType to, int64_t count) : from_(from), to_(to), count_(count) {}
  Status Run(const KernelContext& context) const override {
    if (to_ == DType::kFloat32)
      Float32From16(from_, context.inputs[0], OutputOf<float>(context, 0), count_);
    else
      Float16From32(to_, InputOf<float>(context, 0), context.outputs[0], count_);
    return absl::OkStatus();
  }

 private:
  DType from_, to_;
  int64_t count_;
};

StatusOr<Prepared> PrepareConvert16(const NodeView& node) {
  Prepared prepared;
  prepared.kernel =
      std::make_unique<Convert16Kernel>(node.inputs[0].dtype, node.outputs[0].dtype, node.outputs[0].shape.elements());
  prepared.implementation = "hwy";
  return prepared;
}

template <typename From>
StatusOr<Prepared> PrepareCast(const NodeView& node, const KernelPolicy& policy) {
  const DType to = node.outputs[0].dtype;
  if ((std::is_same_v<From, float> && Is16BitFloat(to)) || (Is16Bit<From> && to == DType::kFloat32))
    return PrepareConvert16(node);
  switch (to) {
#define RIVULET_CAST_TO(dtype, type) \
  case DType::dtype:                 \
    return PrepareUnary<From, type, Convert<From, type>>(node, policy);
    RIVULET_EVERY_TYPE(RIVULET_CAST_TO)
#undef RIVULET_CAST_TO
    default:
      return Unimplemented("a cast from {} to {}", Name(node.inputs[0].dtype), Name(node.outputs[0].dtype));
  }
}

RIVULET_KERNEL("Cast", Device::kCpu, float, PrepareCast<float>);
RIVULET_KERNEL("Cast", Device::kCpu, double, PrepareCast<double>);
RIVULET_KERNEL("Cast", Device::kCpu, bfloat16, PrepareCast<bfloat16>);
RIVULET_KERNEL("Cast", Device::kCpu, float16, PrepareCast<float16>);
RIVULET_KERNEL("Cast", Device::kCpu, int8_t, PrepareCast<int8_t>);
RIVULET_KERNEL("Cast", Device::kCpu, int16_t, PrepareCast<int16_t>);
RIVULET_KERNEL("Cast", Device::kCpu, int32_t, PrepareCast<int32_t>);
RIVULET_KERNEL("Cast", Device::kCpu, int64_t, PrepareCast<int64_t>);
RIVULET_KERNEL("Cast", Device::kCpu, uint8_t, PrepareCast<uint8_t>);
RIVULET_KERNEL("Cast", Device::kCpu, uint16_t, PrepareCast<uint16_t>);
RIVULET_KERNEL("Cast", Device::kCpu, uint32_t, PrepareCast<uint32_t>);
RIVULET_KERNEL("Cast", Device::kCpu, uint64_t, PrepareCast<uint64_t>);
RIVULET_KERNEL("Cast", Device::kCpu, bool, PrepareCast<bool>);

}  // namespace
}  // namespace rivulet
