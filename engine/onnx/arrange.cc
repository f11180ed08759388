#include "engine/onnx/arrange.h"

#include <cstring>

namespace rivulet::onnx {
namespace {

StatusOr<Shape> Counted(const std::vector<int64_t>& dims, int64_t elements) {
  Shape shape(dims);
  const auto count = shape.CheckedElements();
  if (!count.ok() || *count != elements) return Internal("{} is no shape of {} elements", shape.ToString(), elements);
  return shape;
}

}  // namespace

StatusOr<Tensor> ArrangeTensor(const Tensor& value, const std::vector<int64_t>& perm, const std::vector<int64_t>& dims,
                               const std::vector<int64_t>& split) {
  const int64_t elements = value.elements();
  Shape from = value.shape();
  if (!split.empty()) {
    RIVULET_ASSIGN_OR_RETURN(from, Counted(split, elements));
  }
  const auto rank = static_cast<size_t>(from.rank());
  if (perm.size() != rank) return Internal("a permutation of {} axes for {}", perm.size(), from.ToString());
  Shape to = from;
  std::vector<int64_t> steps(rank, 1), strides(rank, 1);
  for (size_t axis = rank; axis-- > 1;) strides[axis - 1] = strides[axis] * from.dim(static_cast<int>(axis));
  for (size_t axis = 0; axis < rank; ++axis) {
    to.set_dim(static_cast<int>(axis), from.dim(static_cast<int>(perm[axis])));
    steps[axis] = strides[static_cast<size_t>(perm[axis])];
  }
  Shape shape = to;
  if (!dims.empty()) {
    RIVULET_ASSIGN_OR_RETURN(shape, Counted(dims, elements));
  }
  Tensor result(value.dtype(), shape);
  const size_t size = SizeOf(value.dtype());
  std::vector<int64_t> at(rank, 0);
  int64_t source = 0;
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(result.data() + static_cast<size_t>(i) * size, value.data() + static_cast<size_t>(source) * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      source += steps[axis];
      if (++at[axis] < to.dim(static_cast<int>(axis))) break;
      source -= steps[axis] * at[axis];
      at[axis] = 0;
    }
  }
  return result;
}

std::vector<int64_t> InversePermutation(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis)
    inverse[static_cast<size_t>(perm[axis])] = static_cast<int64_t>(axis);
  return inverse;
}

}  // namespace rivulet::onnx
