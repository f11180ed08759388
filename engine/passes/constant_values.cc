#include "engine/passes/constant_values.h"

#include <cstring>

namespace rivulet {

std::optional<std::vector<int64_t>> ConstantIntegers(Edge edge) {
  const Tensor* value = GraphEditor::Constant(edge);
  if (value == nullptr || value->empty()) return std::nullopt;
  std::vector<int64_t> integers;
  if (value->dtype() == DType::kInt32) {
    for (const int32_t v : value->flat<int32_t>()) integers.push_back(v);
  } else if (value->dtype() == DType::kInt64) {
    for (const int64_t v : value->flat<int64_t>()) integers.push_back(v);
  } else {
    return std::nullopt;
  }
  return integers;
}

std::optional<double> Splat(Edge edge) {
  const Tensor* value = GraphEditor::Constant(edge);
  if (value == nullptr || value->empty() || value->elements() == 0) return std::nullopt;
  const size_t size = SizeOf(value->dtype());
  if (value->bytes() > size && std::memcmp(value->data(), value->data() + size, value->bytes() - size) != 0)
    return std::nullopt;
  switch (value->dtype()) {
    case DType::kFloat32:
      return value->flat<float>()[0];
    case DType::kFloat64:
      return value->flat<double>()[0];
    case DType::kInt32:
      return value->flat<int32_t>()[0];
    case DType::kInt64: {
      const int64_t v = value->flat<int64_t>()[0];
      if (v > (int64_t{1} << 53) || v < -(int64_t{1} << 53)) return std::nullopt;
      return static_cast<double>(v);
    }
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<int64_t>> ConstantPermutation(Edge edge, int rank) {
  std::optional<std::vector<int64_t>> permutation = ConstantIntegers(edge);
  if (!permutation || static_cast<int>(permutation->size()) != rank) return std::nullopt;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : *permutation) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || seen[static_cast<size_t>(axis)]) return std::nullopt;
    seen[static_cast<size_t>(axis)] = true;
  }
  return permutation;
}

}  // namespace rivulet
