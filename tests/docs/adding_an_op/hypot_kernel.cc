// Hypot on a CPU.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

template <typename T>
struct Hypot {
  // Scaled by the larger side, so that its square cannot overflow. Only operations that IEEE 754 rounds exactly: the
  // same bits on every machine.
  static T Apply(T x, T y) {
    const T a = std::abs(x), b = std::abs(y);
    const T large = std::max(a, b), small = std::min(a, b);
    const T ratio = large > 0 ? small / large : T{0};
    return large * std::sqrt(1 + ratio * ratio);
  }
};

RIVULET_KERNEL("Hypot", Device::kCpu, float, (PrepareBinary<float, float, Hypot<float>>));
RIVULET_KERNEL("Hypot", Device::kCpu, double, (PrepareBinary<double, double, Hypot<double>>));

}  // namespace
}  // namespace rivulet
