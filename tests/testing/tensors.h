// Tensors from a few numbers, and the numbers of tensors.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// A tensor of one axis: VectorOf<float>({1, 2}) is float32[2].
template <typename T>
Tensor VectorOf(const std::vector<T>& values) {
  return Tensor::Of<T>(Shape({static_cast<int64_t>(values.size())}), std::span<const T>(values));
}
inline Tensor Floats(const std::vector<float>& values) { return VectorOf(values); }
inline Tensor Ints(const std::vector<int32_t>& values) { return VectorOf(values); }
inline Tensor Ints(Shape shape, const std::vector<int32_t>& values) {
  return Tensor::Of<int32_t>(std::move(shape), std::span<const int32_t>(values));
}

// The elements in the order of memory.
template <typename T = float>
std::vector<T> Values(const Tensor& tensor) {
  const std::span<const T> flat = tensor.flat<T>();
  return {flat.begin(), flat.end()};
}
// Of what may be an error: that fails the test and has no values.
template <typename T = float>
std::vector<T> Values(const StatusOr<Tensor>& tensor) {
  EXPECT_OK(tensor);
  return tensor.ok() ? Values<T>(*tensor) : std::vector<T>{};
}
// Of one of several results.
template <typename T = float>
std::vector<T> Values(const StatusOr<std::vector<Tensor>>& tensors, size_t which = 0) {
  EXPECT_OK(tensors);
  return tensors.ok() ? Values<T>((*tensors)[which]) : std::vector<T>{};
}

inline TensorSpec F32(Shape shape) { return {DType::kFloat32, std::move(shape)}; }

}  // namespace rivulet::testing
