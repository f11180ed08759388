// Bessel functions, integrals and functions related to gamma, of floats and doubles, computed in double.
#include "engine/base/special_functions.h"

#include <array>
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise_rows.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

#define RIVULET_OF_ONE(name, function)                                                                 \
  template <typename T>                                                                                \
  struct name##Function {                                                                              \
    static T Apply(T x) { return static_cast<T>(math::function(static_cast<double>(x))); }             \
  };                                                                                                   \
  RIVULET_KERNEL(#name, Device::kCpu, float, (PrepareUnaryRows<float, float, name##Function<float>>)); \
  RIVULET_KERNEL(#name, Device::kCpu, double, (PrepareUnaryRows<double, double, name##Function<double>>));
RIVULET_OF_ONE(BesselI0e, BesselI0e)
RIVULET_OF_ONE(BesselI1e, BesselI1e)
RIVULET_OF_ONE(BesselJ0, BesselJ0)
RIVULET_OF_ONE(BesselJ1, BesselJ1)
RIVULET_OF_ONE(BesselK0, BesselK0)
RIVULET_OF_ONE(BesselK1, BesselK1)
RIVULET_OF_ONE(Dawsn, Dawson)
RIVULET_OF_ONE(Expint, ExpIntegral)
RIVULET_OF_ONE(FresnelCos, FresnelCosine)
RIVULET_OF_ONE(FresnelSin, FresnelSine)
RIVULET_OF_ONE(Spence, Spence)

#define RIVULET_OF_TWO(name, function)                                                                  \
  template <typename T>                                                                                 \
  struct name##Function {                                                                               \
    static T Apply(T a, T x) {                                                                          \
      return static_cast<T>(math::function(static_cast<double>(a), static_cast<double>(x)));            \
    }                                                                                                   \
  };                                                                                                    \
  RIVULET_KERNEL(#name, Device::kCpu, float, (PrepareBinaryRows<float, float, name##Function<float>>)); \
  RIVULET_KERNEL(#name, Device::kCpu, double, (PrepareBinaryRows<double, double, name##Function<double>>));
RIVULET_OF_TWO(Polygamma, Polygamma)
RIVULET_OF_TWO(Zeta, HurwitzZeta)
RIVULET_OF_TWO(Igamma, GammaP)
RIVULET_OF_TWO(Igammac, GammaQ)

template <typename T>
struct NextAfterFunction {
  static T Apply(T from, T to) { return std::nextafter(from, to); }
};
RIVULET_KERNEL("NextAfter", Device::kCpu, float, (PrepareBinaryRows<float, float, NextAfterFunction<float>>));
RIVULET_KERNEL("NextAfter", Device::kCpu, double, (PrepareBinaryRows<double, double, NextAfterFunction<double>>));

template <typename T>
StatusOr<Prepared> PrepareBetainc(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  std::array<int64_t, 3> strides{};
  for (size_t i = 0; i < 3; ++i) strides[i] = node.inputs[i].shape.rank() == 0 ? 0 : 1;
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const auto at = [&](size_t i, int64_t element) {
      return static_cast<double>(InputOf<T>(c, i)[element * strides[i]]);
    };
    for (int64_t i = 0; i < count; ++i)
      OutputOf<T>(c, 0)[i] = static_cast<T>(math::BetaI(at(0, i), at(1, i), at(2, i)));
    return absl::OkStatus();
  });
}
RIVULET_KERNEL("Betainc", Device::kCpu, float, PrepareBetainc<float>);
RIVULET_KERNEL("Betainc", Device::kCpu, double, PrepareBetainc<double>);

}  // namespace
}  // namespace rivulet
