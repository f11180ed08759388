// AllFinite: a number is infinite or NaN if all bits of its exponent are set.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

template <typename T>
class AllFiniteKernel final : public Kernel {
 public:
  explicit AllFiniteKernel(int64_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    *OutputOf<bool>(context, 0) = All(context);
    return absl::OkStatus();
  }

 private:
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  static constexpr Word kExponent = std::is_same_v<T, double>     ? static_cast<Word>(0x7FF0000000000000u)
                                    : std::is_same_v<T, float>    ? static_cast<Word>(0x7F800000u)
                                    : std::is_same_v<T, bfloat16> ? static_cast<Word>(0x7F80u)
                                                                  : static_cast<Word>(0x7C00u);

  bool All(const KernelContext& context) const {
    const Word* words = InputOf<Word>(context, 0);
    constexpr int64_t kBlock = 4096;  // stops early at an invalid value; the loop over a block is branch-free
    for (int64_t begin = 0; begin < count_; begin += kBlock) {
      const int64_t count = std::min(kBlock, count_ - begin);
      Word bad = 0;
      for (int64_t i = 0; i < count; ++i) bad |= static_cast<Word>((words[begin + i] & kExponent) == kExponent);
      if (bad != 0) return false;
    }
    return true;
  }
  int64_t count_;
};

template <typename T>
StatusOr<Prepared> PrepareAllFinite(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<AllFiniteKernel<T>>(node.inputs[0].shape.elements());
  prepared.implementation = "loop";
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareCheckNumerics(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements();
  RIVULET_ASSIGN_OR_RETURN(
      Prepared prepared,
      MakeFunctionKernel([count, message = node.attr<std::string>("message")](const KernelContext& c) -> Status {
        const T *in = InputOf<T>(c, 0), *bad = std::find_if(in, in + count, [](T x) { return !std::isfinite(x); });
        if (bad != in + count) return InvalidArgument("{}: element {} is {}", message, bad - in, *bad);
        if (OutputOf<T>(c, 0) != in) std::copy_n(in, count, OutputOf<T>(c, 0));
        return absl::OkStatus();
      }));
  prepared.in_place = {{0, 0}};
  return prepared;
}

RIVULET_KERNEL("CheckNumerics", Device::kCpu, float, PrepareCheckNumerics<float>);
RIVULET_KERNEL("CheckNumerics", Device::kCpu, double, PrepareCheckNumerics<double>);
RIVULET_KERNEL("AllFinite", Device::kCpu, float, PrepareAllFinite<float>);
RIVULET_KERNEL("AllFinite", Device::kCpu, double, PrepareAllFinite<double>);
RIVULET_KERNEL("AllFinite", Device::kCpu, bfloat16, PrepareAllFinite<bfloat16>);
RIVULET_KERNEL("AllFinite", Device::kCpu, float16, PrepareAllFinite<float16>);

}  // namespace
}  // namespace rivulet
