// PyTorch's names and layout of a variable's values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// The values of a tensor seen as `from`, transposed by `axes`, seen as `to`.
struct PyTorchLayout {
  Shape from;
  std::vector<int64_t> axes;
  Shape to;
};

// The layout that PyTorch has for the variable behind `handle`, whose value is `value`. It follows from the op that
// reads the variable. Of an ONNX model the attribute "_onnx_perm" decides, and a variable of a dotted name without it
// is as it was. UNIMPLEMENTED: nothing tells.
StatusOr<PyTorchLayout> PyTorchLayoutOf(const Graph& graph, Node* handle, const Tensor& value);
Tensor Rearranged(const Tensor& tensor, const PyTorchLayout& layout);

// "dense1/kernel" is "dense1.weight". A name without a slash, as models from elsewhere have it, stays.
std::string PyTorchName(std::string_view variable);

}  // namespace rivulet
