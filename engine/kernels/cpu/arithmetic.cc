// Arithmetic on two tensors. Integers wrap around, as in TensorFlow.
#include <algorithm>

#include "engine/kernels/cpu/arithmetic_functions.h"
#include "engine/kernels/cpu/elementwise.h"
#include "engine/kernels/cpu/power.h"

namespace rivulet {
namespace {

// The C library's differs between machines.
template <typename T>
struct PortablePow {
  static T Apply(T x, T y) { return static_cast<T>(PowerOf(static_cast<double>(x), static_cast<double>(y))); }
};

template <typename T>
StatusOr<Prepared> PreparePow(const NodeView& node, const KernelPolicy& policy) {
  if (policy.portable) return PrepareBinary<T, T, PortablePow<T>>(node, policy);
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

// min(max(t, low), high), the bounds broadcast to t. NaN stays NaN.
template <typename T>
class ClipKernel final : public Kernel {
 public:
  explicit ClipKernel(StridedWalk<4> walk) : walk_(walk) {}
  Status Run(const KernelContext& context) const override {
    const T *t = InputOf<T>(context, 0), *low = InputOf<T>(context, 1), *high = InputOf<T>(context, 2);
    T* out = OutputOf<T>(context, 0);
    walk_.ForEachRow([&](const std::array<int64_t, 4>& at, const std::array<int64_t, 4>& stride, int64_t count) {
      if (stride[1] == 1 && stride[2] == 0 && stride[3] == 0) {
        const T *from = t + at[1], least = low[at[2]], most = high[at[3]];
        T* to = out + at[0];
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) to[i] = Clip(from[i], least, most);
      } else {
        for (int64_t i = 0; i < count; ++i)
          out[at[0] + i] = Clip(t[at[1] + i * stride[1]], low[at[2] + i * stride[2]], high[at[3] + i * stride[3]]);
      }
    });
    return absl::OkStatus();
  }

 private:
  static T Clip(T x, T low, T high) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }

  StridedWalk<4> walk_;
};

template <typename T>
StatusOr<Prepared> PrepareClip(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(
      auto walk,
      MakeBroadcastWalk<3>(node.outputs[0].shape, {node.inputs[0].shape, node.inputs[1].shape, node.inputs[2].shape}));
  Prepared prepared;
  prepared.kernel = std::make_unique<ClipKernel<T>>(walk);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  prepared.flops = 2.0 * static_cast<double>(node.outputs[0].shape.elements());
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

#define RIVULET_CLIP_KERNEL(name, function, type) RIVULET_KERNEL(name, Device::kCpu, type, function<type>);
RIVULET_NUMBERS(RIVULET_CLIP_KERNEL, "ClipByValue", PrepareClip)
RIVULET_CLIP_KERNEL("ClipByValue", PrepareClip, int8_t)
RIVULET_CLIP_KERNEL("ClipByValue", PrepareClip, int16_t)
RIVULET_CLIP_KERNEL("ClipByValue", PrepareClip, uint16_t)
RIVULET_CLIP_KERNEL("ClipByValue", PrepareClip, uint32_t)
RIVULET_CLIP_KERNEL("ClipByValue", PrepareClip, uint64_t)

RIVULET_KERNEL("AddN", Device::kCpu, float, PrepareAddN<float>);
RIVULET_KERNEL("AddN", Device::kCpu, double, PrepareAddN<double>);
RIVULET_KERNEL("AddN", Device::kCpu, int32_t, PrepareAddN<int32_t>);
RIVULET_KERNEL("AddN", Device::kCpu, int64_t, PrepareAddN<int64_t>);
RIVULET_KERNEL("AddN", Device::kCpu, uint8_t, PrepareAddN<uint8_t>);

}  // namespace
}  // namespace rivulet
