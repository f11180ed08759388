// PyTorch's names and layout of a variable's values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// A layout change: reshape to `from`, transpose by `axes`, reshape to `to`.
struct PyTorchLayout {
  Shape from;
  std::vector<int64_t> axes;
  Shape to;
};

// PyTorch's layout for the variable behind `handle`, with the value `value`. It follows from the op that reads the
// variable. In an ONNX model the attribute "_onnx_perm" decides, and a variable with a dotted name and without the
// attribute is unchanged. UNIMPLEMENTED: the layout is unknown.
StatusOr<PyTorchLayout> PyTorchLayoutOf(const Graph& graph, Node* handle, const Tensor& value);
Tensor Rearranged(const Tensor& tensor, const PyTorchLayout& layout);

// "dense1/kernel" becomes "dense1.weight". A name without a slash, as in other programs' models, is unchanged.
std::string PyTorchName(std::string_view variable);

}  // namespace rivulet
