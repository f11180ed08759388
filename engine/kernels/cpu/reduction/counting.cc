// Counts, ranks and positions of values.
#include <algorithm>
#include <cmath>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"

namespace rivulet {
namespace {

// Reads integer `i` of an input of type int32 or int64.
int64_t IntegerAt(const KernelContext& c, size_t input, bool wide, int64_t i) {
  return wide ? InputOf<int64_t>(c, input)[i] : int64_t{InputOf<int32_t>(c, input)[i]};
}
void SetInteger(const KernelContext& c, size_t output, bool wide, int64_t i, int64_t value) {
  if (wide)
    OutputOf<int64_t>(c, output)[i] = value;
  else
    OutputOf<int32_t>(c, output)[i] = static_cast<int32_t>(value);
}

template <typename T>
StatusOr<Prepared> PrepareBincount(const NodeView& node, const KernelPolicy&) {
  const Shape &input = node.inputs[0].shape, &output = node.outputs[0].shape;
  const int64_t rows = input.rank() == 2 ? input.dim(0) : 1, columns = rows == 0 ? 0 : input.elements() / rows;
  const int64_t bins = output.dim(output.rank() - 1), weights = node.inputs[2].shape.elements();
  const bool wide = node.inputs[0].dtype == DType::kInt64;
  const bool* asked = node.node.FindAttr<bool>("binary_output");
  const bool binary = asked != nullptr && *asked;
  if (weights != 0 && weights != input.elements())
    return InvalidArgument("there are {} weights for {} values", weights, input.elements());
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    T* out = OutputOf<T>(c, 0);
    std::fill_n(out, rows * bins, T{0});
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t value = IntegerAt(c, 0, wide, i);
      if (value < 0) return InvalidArgument("element {} is {}; counted values are not negative", i, value);
      if (value >= bins) continue;
      T& bin = out[i / columns * bins + value];
      bin = binary ? T{1} : bin + (weights == 0 ? T{1} : InputOf<T>(c, 2)[i]);
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareHistogram(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements(), bins = node.outputs[0].shape.elements();
  const bool wide = node.outputs[0].dtype == DType::kInt64;
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const double low = static_cast<double>(InputOf<T>(c, 1)[0]), high = static_cast<double>(InputOf<T>(c, 1)[1]);
    if (!(low < high)) return InvalidArgument("value_range [{}, {}] is empty", low, high);
    const double step = (high - low) / static_cast<double>(bins);
    for (int64_t i = 0; i < bins; ++i) SetInteger(c, 0, wide, i, 0);
    for (int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(InputOf<T>(c, 0)[i]);
      if (value != value) return InvalidArgument("values[{}] is NaN", i);
      const double place = std::clamp((value - low) / step, 0.0, static_cast<double>(bins - 1));
      const auto bin = static_cast<int64_t>(place);
      if (wide)
        ++OutputOf<int64_t>(c, 0)[bin];
      else
        ++OutputOf<int32_t>(c, 0)[bin];
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareBucketize(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.elements();
  return MakeFunctionKernel(
      [count, boundaries = node.attr<std::vector<float>>("boundaries")](const KernelContext& c) -> Status {
        for (int64_t i = 0; i < count; ++i) {
          const T value = InputOf<T>(c, 0)[i];
          const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), value,
                                              [](T v, float boundary) { return v < static_cast<T>(boundary); });
          OutputOf<int32_t>(c, 0)[i] = static_cast<int32_t>(above - boundaries.begin());
        }
        return absl::OkStatus();
      });
}

template <typename T>
StatusOr<Prepared> PrepareBound(const NodeView& node, const KernelPolicy&) {
  const int64_t rows = node.inputs[0].shape.dim(0), sorted = node.inputs[0].shape.dim(1);
  const int64_t values = node.inputs[1].shape.dim(1);
  const bool upper = node.node.type() == "UpperBound", wide = node.outputs[0].dtype == DType::kInt64;
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < rows * values; ++i) {
      const T* row = InputOf<T>(c, 0) + i / values * sorted;
      const T value = InputOf<T>(c, 1)[i];
      const T* found = upper ? std::upper_bound(row, row + sorted, value) : std::lower_bound(row, row + sorted, value);
      SetInteger(c, 0, wide, i, found - row);
    }
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PrepareInTopK(const NodeView& node, const KernelPolicy&) {
  const int64_t rows = node.inputs[0].shape.dim(0), classes = node.inputs[0].shape.dim(1);
  const bool wide = node.inputs[1].dtype == DType::kInt64;
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const int64_t k = IntegerAt(c, 2, wide, 0);
    for (int64_t row = 0; row < rows; ++row) {
      const float* scores = InputOf<float>(c, 0) + row * classes;
      const int64_t target = IntegerAt(c, 1, wide, row);
      // As in TensorFlow: an invalid target or score is not a hit.
      bool hit = target >= 0 && target < classes && std::isfinite(scores[target]);
      int64_t above = 0;
      for (int64_t i = 0; hit && i < classes; ++i) {
        if (!std::isfinite(scores[i])) hit = false;
        if (scores[i] > scores[target]) ++above;
      }
      OutputOf<bool>(c, 0)[row] = hit && above < k;
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareNth(const NodeView& node, const KernelPolicy&) {
  const Shape& input = node.inputs[0].shape;
  const int64_t columns = input.dim(input.rank() - 1), rows = node.outputs[0].shape.elements();
  const bool reverse = node.attr<bool>("reverse");
  return MakeFunctionKernel(
      [=](const KernelContext& c) -> Status {
        const int64_t n = *InputOf<int32_t>(c, 1);
        if (n < 0 || n >= columns) return InvalidArgument("n is {}, and a row has {} elements", n, columns);
        T* row = As<T>(c.scratch);
        const int64_t at = reverse ? columns - 1 - n : n;
        for (int64_t i = 0; i < rows; ++i) {
          std::copy_n(InputOf<T>(c, 0) + i * columns, columns, row);
          std::nth_element(row, row + at, row + columns);
          OutputOf<T>(c, 0)[i] = row[at];
        }
        return absl::OkStatus();
      },
      static_cast<size_t>(columns) * sizeof(T));
}

#define RIVULET_COUNTING_KERNEL(name, prepare)                   \
  RIVULET_KERNEL(name, Device::kCpu, float, prepare<float>);     \
  RIVULET_KERNEL(name, Device::kCpu, double, prepare<double>);   \
  RIVULET_KERNEL(name, Device::kCpu, int32_t, prepare<int32_t>); \
  RIVULET_KERNEL(name, Device::kCpu, int64_t, prepare<int64_t>);
RIVULET_COUNTING_KERNEL("DenseBincount", PrepareBincount)
RIVULET_COUNTING_KERNEL("Bincount", PrepareBincount)
RIVULET_COUNTING_KERNEL("HistogramFixedWidth", PrepareHistogram)
RIVULET_COUNTING_KERNEL("Bucketize", PrepareBucketize)
RIVULET_COUNTING_KERNEL("LowerBound", PrepareBound)
RIVULET_COUNTING_KERNEL("UpperBound", PrepareBound)
RIVULET_COUNTING_KERNEL("NthElement", PrepareNth)
RIVULET_KERNEL("InTopKV2", Device::kCpu, void, PrepareInTopK);

}  // namespace
}  // namespace rivulet
