// Sparse matrices, and reductions of rows by ascending segments.
#include <algorithm>
#include <cmath>

#include "engine/base/math.h"
#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

int64_t IndexAt(const KernelContext& c, size_t input, bool wide, int64_t i) {
  return wide ? InputOf<int64_t>(c, input)[i] : int64_t{InputOf<int32_t>(c, input)[i]};
}

template <typename Word>
StatusOr<Prepared> MakeSparseToDense(const NodeView& node) {
  const Shape &places = node.inputs[0].shape, &output = node.outputs[0].shape;
  // One place may be a scalar, and a list of places in a vector may be a vector.
  const int64_t count = places.rank() == 0 ? 1 : places.dim(0), depth = places.rank() == 2 ? places.dim(1) : 1;
  const int64_t values = node.inputs[2].shape.elements();
  if (depth != output.rank())
    return InvalidArgument("places of {} indices in a tensor of {} axes", depth, output.rank());
  if (node.inputs[2].shape.rank() > 0 && values != count)
    return InvalidArgument("there are {} values for {} places", values, count);
  const bool scalar = node.inputs[2].shape.rank() == 0, wide = node.inputs[0].dtype == DType::kInt64;
  return MakeFunctionKernel([=, dims = std::vector<int64_t>(output.dims().begin(), output.dims().end()),
                             elements = output.elements()](const KernelContext& c) -> Status {
    Word* out = OutputOf<Word>(c, 0);
    std::fill_n(out, elements, *InputOf<Word>(c, 3));
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      for (int64_t axis = 0; axis < depth; ++axis) {
        const int64_t index = IndexAt(c, 0, wide, i * depth + axis), size = dims[static_cast<size_t>(axis)];
        if (index < 0 || index >= size)
          return InvalidArgument("place {} has index {} on axis {} of size {}", i, index, axis, size);
        at = at * size + index;
      }
      out[at] = InputOf<Word>(c, 2)[scalar ? 0 : i];
    }
    return absl::OkStatus();
  });
}

StatusOr<Prepared> PrepareSparseToDense(const NodeView& node, const KernelPolicy&) {
  switch (SizeOf(node.outputs[0].dtype)) {
    case 1:
      return MakeSparseToDense<uint8_t>(node);
    case 2:
      return MakeSparseToDense<uint16_t>(node);
    case 4:
      return MakeSparseToDense<uint32_t>(node);
    default:
      return MakeSparseToDense<uint64_t>(node);
  }
}

template <typename T>
StatusOr<Prepared> PrepareSparseProduct(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.dim(0);
  const Shape &b = node.inputs[3].shape, &output = node.outputs[0].shape;
  const bool adjoint_a = node.attr<bool>("adjoint_a"), adjoint_b = node.attr<bool>("adjoint_b");
  const bool wide = node.inputs[0].dtype == DType::kInt64;
  if (node.inputs[1].shape.elements() != count || node.inputs[0].shape.dim(1) != 2)
    return InvalidArgument("places {} and values {} are not [n,2] and [n]", node.inputs[0].shape.ToString(),
                           node.inputs[1].shape.ToString());
  const int64_t rows = output.dim(0), columns = output.dim(1), inner = b.dim(adjoint_b ? 1 : 0);
  return MakeFunctionKernel([=, b_columns = b.dim(1)](const KernelContext& c) -> Status {
    T* out = OutputOf<T>(c, 0);
    std::fill_n(out, rows * columns, T{0});
    for (int64_t i = 0; i < count; ++i) {
      int64_t row = IndexAt(c, 0, wide, 2 * i), column = IndexAt(c, 0, wide, 2 * i + 1);
      if (adjoint_a) std::swap(row, column);
      if (row < 0 || row >= rows || column < 0 || column >= inner)
        return InvalidArgument("place {} is outside the matrix", i);
      const T value = InputOf<T>(c, 1)[i];
      for (int64_t j = 0; j < columns; ++j)
        out[row * columns + j] += value * InputOf<T>(c, 3)[adjoint_b ? j * b_columns + column : column * b_columns + j];
    }
    return absl::OkStatus();
  });
}

enum class Join { kSum, kMean, kSqrtN, kMax, kMin, kProd };

template <typename T>
T Joined(Join join, T a, T b) {
  switch (join) {
    case Join::kMax:
      return std::max(a, b);
    case Join::kMin:
      return std::min(a, b);
    case Join::kProd:
      return a * b;
    default:
      return a + b;
  }
}

// Reduces rows of `data`, or those in `indices`, by ids (the last input). A segment starts with its first row.
template <typename T, Join kJoin>
StatusOr<Prepared> PrepareSegments(const NodeView& node, const KernelPolicy&) {
  const Shape& data = node.inputs[0].shape;
  const bool chosen = node.inputs.size() == 3;
  const size_t ids = chosen ? 2 : 1;
  const int64_t count = node.inputs[ids].shape.dim(0), segments = node.outputs[0].shape.dim(0), all = data.dim(0);
  const int64_t width = all == 0 ? 0 : data.elements() / all;
  if (chosen ? node.inputs[1].shape.elements() != count : all != count)
    return InvalidArgument("there are {} segment_ids for {} rows", count,
                           chosen ? node.inputs[1].shape.elements() : all);
  const bool wide_ids = node.inputs[ids].dtype == DType::kInt64;
  const bool wide_indices = chosen && node.inputs[1].dtype == DType::kInt64;
  const T empty = kJoin == Join::kProd ? T{1} : T{0};
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    T* out = OutputOf<T>(c, 0);
    std::fill_n(out, segments * width, empty);
    int64_t last = -1, size = 0;
    const auto finish = [&] {
      if (last < 0 || (kJoin != Join::kMean && kJoin != Join::kSqrtN)) return;
      const T by =
          static_cast<T>(kJoin == Join::kMean ? static_cast<double>(size) : std::sqrt(static_cast<double>(size)));
      for (int64_t j = 0; j < width; ++j) out[last * width + j] /= by;
    };
    for (int64_t i = 0; i < count; ++i) {
      const int64_t segment = IndexAt(c, ids, wide_ids, i), row = chosen ? IndexAt(c, 1, wide_indices, i) : i;
      if (segment < last || segment < 0 || segment >= segments)
        return InvalidArgument("segment_ids[{}] is {}, after {} and of {} segments; they ascend", i, segment, last,
                               segments);
      if (row < 0 || row >= all) return InvalidArgument("indices[{}] is {}, and there are {} rows", i, row, all);
      const bool first = segment != last;
      if (first) {
        finish();
        last = segment;
        size = 0;
      }
      ++size;
      const T* from = InputOf<T>(c, 0) + row * width;
      for (int64_t j = 0; j < width; ++j)
        out[segment * width + j] = first ? from[j] : Joined(kJoin, out[segment * width + j], from[j]);
    }
    finish();
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareSparseSoftmax(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.inputs[0].shape.dim(0), depth = node.inputs[0].shape.dim(1);
  if (depth < 2) return InvalidArgument("a sparse tensor of {} axes has no rows", depth);
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    const int64_t* places = InputOf<int64_t>(c, 0);
    const T* values = InputOf<T>(c, 1);
    T* out = OutputOf<T>(c, 0);
    for (int64_t begin = 0, end = 0; begin < count; begin = end) {
      double largest = static_cast<double>(values[begin]), total = 0;
      for (end = begin;
           end < count && std::equal(places + begin * depth, places + begin * depth + depth - 1, places + end * depth);
           ++end)
        largest = std::max(largest, static_cast<double>(values[end]));
      for (int64_t i = begin; i < end; ++i) total += math::Exp(static_cast<double>(values[i]) - largest);
      for (int64_t i = begin; i < end; ++i)
        out[i] = static_cast<T>(math::Exp(static_cast<double>(values[i]) - largest) / total);
    }
    return absl::OkStatus();
  });
}

RIVULET_KERNEL_OF_EVERY_SIZE("SparseToDense", PrepareSparseToDense);
RIVULET_KERNEL("SparseSoftmax", Device::kCpu, float, PrepareSparseSoftmax<float>);
RIVULET_KERNEL("SparseSoftmax", Device::kCpu, double, PrepareSparseSoftmax<double>);

#define RIVULET_OF_NUMBERS(M) M(float) M(double) M(int32_t) M(int64_t)
#define RIVULET_SPARSE_PRODUCT(T) RIVULET_KERNEL("SparseTensorDenseMatMul", Device::kCpu, T, PrepareSparseProduct<T>);
RIVULET_OF_NUMBERS(RIVULET_SPARSE_PRODUCT)
#define RIVULET_SEGMENTS(T)                                                          \
  RIVULET_KERNEL("SegmentSum", Device::kCpu, T, (PrepareSegments<T, Join::kSum>));   \
  RIVULET_KERNEL("SegmentMean", Device::kCpu, T, (PrepareSegments<T, Join::kMean>)); \
  RIVULET_KERNEL("SegmentMax", Device::kCpu, T, (PrepareSegments<T, Join::kMax>));   \
  RIVULET_KERNEL("SegmentMin", Device::kCpu, T, (PrepareSegments<T, Join::kMin>));   \
  RIVULET_KERNEL("SegmentProd", Device::kCpu, T, (PrepareSegments<T, Join::kProd>));
RIVULET_OF_NUMBERS(RIVULET_SEGMENTS)
#define RIVULET_SPARSE_SEGMENTS(T)                                                         \
  RIVULET_KERNEL("SparseSegmentSum", Device::kCpu, T, (PrepareSegments<T, Join::kSum>));   \
  RIVULET_KERNEL("SparseSegmentMean", Device::kCpu, T, (PrepareSegments<T, Join::kMean>)); \
  RIVULET_KERNEL("SparseSegmentSqrtN", Device::kCpu, T, (PrepareSegments<T, Join::kSqrtN>));
RIVULET_SPARSE_SEGMENTS(float)
RIVULET_SPARSE_SEGMENTS(double)

}  // namespace
}  // namespace rivulet
