// Arithmetic on two tensors. Integers wrap around, as in TensorFlow.
#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/elementwise/arithmetic_functions.h"
#include "engine/kernels/cpu/elementwise/choose.h"
#include "engine/kernels/cpu/elementwise/power.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

// The C library's results differ between machines.
template <typename T>
struct PortablePow {
  static T Apply(T x, T y) { return static_cast<T>(PowerOf(static_cast<double>(x), static_cast<double>(y))); }
};

template <typename T>
StatusOr<Prepared> PreparePow(const NodeView& node, const KernelPolicy& policy) {
  if (ChoosePower(policy) == PowerAlgorithm::kPortable) return PrepareBinary<T, T, PortablePow<T>>(node, policy);
  return PrepareBinary<T, T, Pow<T>>(node, policy);
}

constexpr int64_t kSumBytes = 4096;

template <typename T>
void AddTo(std::byte* sums, const std::byte* next, int64_t count) {
  T* sum = reinterpret_cast<T*>(sums);
  const T* added = reinterpret_cast<const T*>(next);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) sum[i] = Add<T>::Apply(sum[i], added[i]);
}
using AddLoop = void (*)(std::byte* sums, const std::byte* next, int64_t count);

// The sum of any number of tensors of one shape, in order.
class AddNKernel final : public Kernel {
 public:
  AddNKernel(AddLoop add, int64_t element, int64_t count) : add_(add), element_(element), count_(count) {}
  Status Run(const KernelContext& context) const override {
    // A block of sums at a time: no element is written before it was read from every input, so the output may reuse the
    // memory of any input.
    alignas(64) std::byte sum[kSumBytes];
    const int64_t block = std::min<int64_t>(kSumBytes / element_, 512);
    for (int64_t begin = 0; begin < count_; begin += block) {
      const int64_t count = std::min(block, count_ - begin);
      const auto bytes = static_cast<size_t>(count * element_);
      std::memcpy(sum, context.inputs[0] + begin * element_, bytes);
      for (size_t input = 1; input < context.inputs.size(); ++input)
        add_(sum, context.inputs[input] + begin * element_, count);
      std::memcpy(context.outputs[0] + begin * element_, sum, bytes);
    }
    return absl::OkStatus();
  }

 private:
  AddLoop add_;
  int64_t element_, count_;
};

StatusOr<Prepared> PrepareSum(const NodeView& node, AddLoop add) {
  const int64_t elements = node.outputs[0].shape.elements();
  Prepared prepared;
  prepared.kernel = std::make_unique<AddNKernel>(add, static_cast<int64_t>(SizeOf(node.outputs[0].dtype)), elements);
  prepared.in_place = InPlacePairs(node);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(elements) * static_cast<double>(node.inputs.size() - 1);
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareAddN(const NodeView& node, const KernelPolicy&) {
  return PrepareSum(node, AddTo<T>);
}

// min(max(t, low), high), with the bounds broadcast to t. NaN stays NaN.
template <typename T>
T Clip(T x, T low, T high) {
  const T raised = x < low ? low : x;
  return raised > high ? high : raised;
}

template <typename T>
void ClipRow(const std::array<const std::byte*, 3>& inputs, const std::array<int64_t, 3>& strides, std::byte* out,
             int64_t count) {
  const T* t = reinterpret_cast<const T*>(inputs[0]);
  const T *low = reinterpret_cast<const T*>(inputs[1]), *high = reinterpret_cast<const T*>(inputs[2]);
  T* to = reinterpret_cast<T*>(out);
  if (strides[0] == 1 && strides[1] == 0 && strides[2] == 0) {
    const T least = *low, most = *high;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Clip(t[i], least, most);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Clip(t[i * strides[0]], low[i * strides[1]], high[i * strides[2]]);
  }
}
// The inputs t, low and high; strides count elements.
using ClipLoop = void (*)(const std::array<const std::byte*, 3>& inputs, const std::array<int64_t, 3>& strides,
                          std::byte* out, int64_t count);

class ClipKernel final : public Kernel {
 public:
  ClipKernel(ClipLoop clip, int64_t element, const StridedWalk<4>& walk)
      : clip_(clip), element_(element), walk_(walk) {}
  Status Run(const KernelContext& context) const override {
    walk_.ForEachRow([&](const std::array<int64_t, 4>& at, const std::array<int64_t, 4>& stride, int64_t count) {
      clip_({context.inputs[0] + at[1] * element_, context.inputs[1] + at[2] * element_,
             context.inputs[2] + at[3] * element_},
            {stride[1], stride[2], stride[3]}, context.outputs[0] + at[0] * element_, count);
    });
    return absl::OkStatus();
  }

 private:
  ClipLoop clip_;
  int64_t element_;
  StridedWalk<4> walk_;
};

StatusOr<Prepared> PrepareClipLoop(const NodeView& node, ClipLoop clip) {
  RIVULET_ASSIGN_OR_RETURN(
      const auto walk,
      MakeBroadcastWalk<3>(node.outputs[0].shape, {node.inputs[0].shape, node.inputs[1].shape, node.inputs[2].shape}));
  Prepared prepared;
  prepared.kernel = std::make_unique<ClipKernel>(clip, static_cast<int64_t>(SizeOf(node.outputs[0].dtype)), walk);
  prepared.in_place = {{0, 0}};
  prepared.implementation = "loop";
  prepared.flops = 2.0 * static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareClip(const NodeView& node, const KernelPolicy&) {
  return PrepareClipLoop(node, ClipRow<T>);
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
