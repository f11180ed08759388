// Transposition of tensors outside of graphs.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet::onnx {

// Returns `value` reshaped to `split` (if not empty), transposed by `perm`, and reshaped to `dims` (if not empty).
// INTERNAL: sizes that contradict the number of elements.
StatusOr<Tensor> ArrangeTensor(const Tensor& value, const std::vector<int64_t>& perm,
                               const std::vector<int64_t>& dims = {}, const std::vector<int64_t>& split = {});

// Returns the inverse permutation of `perm`.
std::vector<int64_t> InversePermutation(const std::vector<int64_t>& perm);

}  // namespace rivulet::onnx
