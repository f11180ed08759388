// Transposition of tensors outside any graph.
#pragma once

#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet::onnx {

// `value` reshaped to `split` (empty: as it is), transposed by `perm`, reshaped to `dims` (empty: as it is). INTERNAL:
// sizes that are not those of its elements.
StatusOr<Tensor> ArrangeTensor(const Tensor& value, const std::vector<int64_t>& perm,
                               const std::vector<int64_t>& dims = {}, const std::vector<int64_t>& split = {});

// The permutation that undoes `perm`.
std::vector<int64_t> InversePermutation(const std::vector<int64_t>& perm);

}  // namespace rivulet::onnx
