// Values that shape functions request while a graph is built.
#include "engine/graph/inference.h"
#include "engine/graph/symbolic_values.h"

namespace rivulet {

std::optional<Tensor> ConstantValue(Output output, const ShapeLookup& shape_of) {
  if (output.node->type() == "Const") {
    const Tensor* value = output.node->FindAttr<Tensor>("value");
    return value == nullptr ? std::nullopt : std::optional<Tensor>(*value);
  }
  return SymbolicValues(shape_of, SymbolicValues::Sizes::kOwn).NumbersOf(output);
}

std::optional<Shape> ValueAsShape(Output output, const ShapeLookup& shape_of) {
  SymbolicValues values(shape_of, SymbolicValues::Sizes::kOwn);
  const Elements* const sizes = values.ValueOf(output);
  if (sizes == nullptr || sizes->shape.rank() != 1 || sizes->values.size() > 254) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Dimension& size : sizes->values)
    dims.push_back(size.IsNumber() && size.number() >= 0 ? size.number() : kUnknownDim);
  return Shape(std::move(dims));
}

}  // namespace rivulet
