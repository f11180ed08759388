// Attribute values of a node, as TensorFlow's AttrValue.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// A function of the graph's library (engine/graph/function.h), by name.
struct FunctionRef {
  std::string name;
  bool operator==(const FunctionRef&) const = default;
};

using AttrValue = std::variant<int64_t, float, bool, std::string, DType, Shape, Tensor, FunctionRef,
                               std::vector<int64_t>, std::vector<float>, std::vector<bool>, std::vector<std::string>,
                               std::vector<DType>, std::vector<Shape>, std::vector<FunctionRef>>;
using AttrMap = std::map<std::string, AttrValue>;  // ordered, so that serialisation is canonical

}  // namespace rivulet
