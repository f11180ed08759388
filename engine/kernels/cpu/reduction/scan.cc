// Cumulative sums and products along an axis of [outer, size, inner].
#include <algorithm>

#include "engine/kernels/cpu/strided/constant_input.h"
#include "engine/kernels/cpu/strided/elementwise.h"

namespace rivulet {
namespace {

struct ScanSizes {
  int64_t outer = 1, size = 1, inner = 1;
  bool exclusive = false, reverse = false;
};

template <typename T, bool kProduct>
class ScanKernel final : public Kernel {
 public:
  explicit ScanKernel(const ScanSizes& sizes) : s_(sizes) {}
  Status Run(const KernelContext& context) const override {
    const T* in = InputOf<T>(context, 0);
    T* out = OutputOf<T>(context, 0);
    // Rows in the order of accumulation.
    const int64_t block = s_.size * s_.inner, step = s_.reverse ? -s_.inner : s_.inner;
    int64_t outer = 0;
    // Separate rows, several at once: each waits only for its own last sum.
    constexpr int64_t kRows = 8;
    for (; s_.inner == 1 && outer + kRows <= s_.outer; outer += kRows, in += kRows * block, out += kRows * block) {
      T carry[kRows];
      for (T& value : carry) value = T{kProduct ? 1 : 0};
      for (int64_t i = 0, at = s_.reverse ? block - 1 : 0; i < block; ++i, at += step)
        for (int64_t row = 0; row < kRows; ++row) {
          const T next = Join(carry[row], in[row * block + at]);
          out[row * block + at] = s_.exclusive ? carry[row] : next;
          carry[row] = next;
        }
    }
    for (; outer < s_.outer && s_.size > 0; ++outer, in += block, out += block) {
      const T* from = in + (s_.reverse ? block - s_.inner : 0);
      T* to = out + (s_.reverse ? block - s_.inner : 0);
      for (int64_t i = 0; i < s_.inner; ++i)
        to[i] = s_.exclusive ? T{kProduct ? 1 : 0} : Join(T{kProduct ? 1 : 0}, from[i]);
      for (int64_t row = 1; row < s_.size; ++row) {
        const T* added = s_.exclusive ? from : from + step;
        for (int64_t i = 0; i < s_.inner; ++i) to[step + i] = Join(to[i], added[i]);
        from += step;
        to += step;
      }
    }
    return absl::OkStatus();
  }

 private:
  using Wrapping =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  static T Join(T a, T b) {
    const auto x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
    return static_cast<T>(kProduct ? x * y : x + y);
  }
  ScanSizes s_;
};

// dx[i] = (product before i) · s[i], where s accumulates from the end: s[i] = dy[i] + x[i + 1] · s[i + 1]; without i
// itself (exclusive), s[i] = dy[i + 1] + x[i + 1] · s[i + 1].
template <typename T>
class CumprodGradKernel final : public Kernel {
 public:
  explicit CumprodGradKernel(const ScanSizes& sizes) : s_(sizes) {}
  Status Run(const KernelContext& context) const override {
    const T *x = InputOf<T>(context, 0), *dy = InputOf<T>(context, 2);
    T* dx = OutputOf<T>(context, 0);
    const int64_t block = s_.size * s_.inner, step = s_.reverse ? -s_.inner : s_.inner;
    for (int64_t outer = 0; outer < s_.outer; ++outer) {
      for (int64_t inner = 0; inner < s_.inner && s_.size > 0; ++inner) {
        const int64_t first = outer * block + inner + (s_.reverse ? block - s_.inner : 0);
        T after{0};
        for (int64_t row = s_.size - 1; row >= 0; --row) {
          const int64_t at = first + row * step;
          const bool last = row == s_.size - 1;
          const T later = last ? T{0} : x[at + step] * after;
          after = s_.exclusive ? (last ? T{0} : dy[at + step] + later) : dy[at] + later;
          dx[at] = after;
        }
        T before{1};
        for (int64_t row = 0; row < s_.size; ++row) {
          const int64_t at = first + row * step;
          dx[at] *= before;
          before *= x[at];
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  ScanSizes s_;
};

StatusOr<ScanSizes> SizesOf(const NodeView& node) {
  const Shape& shape = node.inputs[0].shape;
  RIVULET_ASSIGN_OR_RETURN(const int64_t given, ConstantScalar(node, 1, "the axis"));
  const auto axis = static_cast<int>(AxisOf(given, shape.rank()));
  ScanSizes sizes;
  for (int i = 0; i < axis; ++i) sizes.outer *= shape.dim(i);
  sizes.size = shape.dim(axis);
  for (int i = axis + 1; i < shape.rank(); ++i) sizes.inner *= shape.dim(i);
  sizes.exclusive = node.attr<bool>("exclusive");
  sizes.reverse = node.attr<bool>("reverse");
  return sizes;
}

template <typename K>
StatusOr<Prepared> PrepareScan(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const ScanSizes sizes, SizesOf(node));
  Prepared prepared;
  prepared.kernel = std::make_unique<K>(sizes);
  prepared.implementation = "loop";
  prepared.flops = static_cast<double>(node.inputs[0].shape.elements());
  return prepared;
}

#define RIVULET_SCAN_KERNEL(type)                                                       \
  RIVULET_KERNEL("Cumsum", Device::kCpu, type, (PrepareScan<ScanKernel<type, false>>)); \
  RIVULET_KERNEL("Cumprod", Device::kCpu, type, (PrepareScan<ScanKernel<type, true>>))
RIVULET_SCAN_KERNEL(float);
RIVULET_SCAN_KERNEL(double);
RIVULET_SCAN_KERNEL(int32_t);
RIVULET_SCAN_KERNEL(int64_t);
RIVULET_KERNEL("CumprodGrad", Device::kCpu, float, PrepareScan<CumprodGradKernel<float>>);
RIVULET_KERNEL("CumprodGrad", Device::kCpu, double, PrepareScan<CumprodGradKernel<double>>);

}  // namespace
}  // namespace rivulet
