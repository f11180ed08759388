// Values of small integer tensors that follow from constants and known shapes. Only what computes shapes is worth
// folding here; a program folds the rest with its kernels.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "engine/graph/inference.h"
#include "engine/graph/list_shape.h"

namespace rivulet {
namespace {

constexpr size_t kMaxElements = 256;
constexpr int kMaxDepth = 64;
constexpr int kMaxNodes = 1024;  // looked at for one value: graphs come from outside

// A small integer tensor, whatever its dtype.
struct Ints {
  DType dtype = DType::kInt32;
  Shape shape;
  std::vector<int64_t> values;
};

std::optional<Ints> FromTensor(const Tensor& tensor) {
  if (tensor.empty() || tensor.elements() > static_cast<int64_t>(kMaxElements)) return std::nullopt;
  Ints ints{tensor.dtype(), tensor.shape(), {}};
  if (tensor.dtype() == DType::kInt32) {
    for (int32_t v : tensor.flat<int32_t>()) ints.values.push_back(v);
  } else if (tensor.dtype() == DType::kInt64) {
    for (int64_t v : tensor.flat<int64_t>()) ints.values.push_back(v);
  } else {
    return std::nullopt;
  }
  return ints;
}

bool Fits(const Ints& ints) {
  if (ints.dtype == DType::kInt64) return true;
  return std::ranges::all_of(ints.values, [](int64_t v) {
    return v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max();
  });
}

Tensor ToTensor(const Ints& ints) {
  Tensor tensor(ints.dtype, ints.shape);
  if (ints.dtype == DType::kInt64) {
    std::ranges::copy(ints.values, tensor.flat<int64_t>().begin());
  } else {
    std::ranges::transform(ints.values, tensor.flat<int32_t>().begin(),
                           [](int64_t v) { return static_cast<int32_t>(v); });
  }
  return tensor;
}

// The values are remembered, and so are those being computed (as unknown): a graph may use one value in so many ways
// that walking each would take time exponential in its depth.
class Folder {
 public:
  explicit Folder(const ShapeLookup& shape_of) : shape_of_(shape_of) {}

  std::optional<Ints> Value(Output output, int depth) const {
    if (depth > kMaxDepth) return std::nullopt;
    const DType dtype = output.dtype();
    if (dtype != DType::kInt32 && dtype != DType::kInt64) return std::nullopt;
    const std::pair key(output.node, output.port);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    if (static_cast<int>(known_.size()) >= kMaxNodes) return std::nullopt;
    known_[key] = std::nullopt;
    std::optional<Ints> ints = Fold(*output.node, dtype, depth);
    if (ints && (ints->values.size() > kMaxElements || !Fits(*ints))) ints.reset();
    known_[key] = ints;
    return ints;
  }

 private:
  std::optional<Ints> Fold(const Node& node, DType dtype, int depth) const {
    const std::string_view op = node.type();
    if (op == "Const") {
      const Tensor* value = node.FindAttr<Tensor>("value");
      return value == nullptr ? std::nullopt : FromTensor(*value);
    }
    if (op == "Shape" || op == "Size" || op == "Rank") return OfShape(shape_of_(node.input(0)), op, dtype);
    if (op == "TensorListLength") {
      const int64_t length = ListLength(shape_of_(node.input(0)));
      return length < 0 ? std::nullopt : std::optional(Ints{dtype, Shape{}, {length}});
    }
    if (op == "Identity" || op == "StopGradient" || op == "Snapshot") return Value(node.input(0), depth + 1);
    if (op == "Cast") return Retyped(Value(node.input(0), depth + 1), dtype);
    if (op == "Pack" || op == "ConcatV2") return Joined(node, dtype, depth);
    if (op == "StridedSlice") return Sliced(node, depth);
    if (op == "Reshape" || op == "ExpandDims" || op == "Squeeze") return Reshaped(node, depth);
    if (op == "Prod" || op == "Sum") return Reduced(node, depth);
    return Arithmetic(node, depth);
  }

  static std::optional<Ints> OfShape(const Shape& shape, std::string_view op, DType dtype) {
    if (!shape.known_rank()) return std::nullopt;
    if (op == "Rank") return Ints{dtype, Shape{}, {shape.rank()}};
    if (!shape.IsFullyKnown()) return std::nullopt;
    if (op == "Size") {
      const StatusOr<int64_t> elements = shape.CheckedElements();
      if (!elements.ok()) return std::nullopt;
      return Ints{dtype, Shape{}, {*elements}};
    }
    return Ints{dtype, Shape{shape.rank()}, {shape.dims().begin(), shape.dims().end()}};
  }

  static std::optional<Ints> Retyped(std::optional<Ints> ints, DType dtype) {
    if (ints) ints->dtype = dtype;
    return ints;
  }

  // Scalars packed, or vectors concatenated, into a vector.
  std::optional<Ints> Joined(const Node& node, DType dtype, int depth) const {
    const bool pack = node.type() == "Pack";
    const size_t count = node.inputs().size() - (pack ? 0 : 1);
    if (count > kMaxElements) return std::nullopt;
    Ints joined{dtype, Shape{}, {}};
    for (size_t i = 0; i < count; ++i) {
      const std::optional<Ints> part = Value(node.inputs()[i], depth + 1);
      if (!part || part->shape.rank() != (pack ? 0 : 1)) return std::nullopt;
      joined.values.insert(joined.values.end(), part->values.begin(), part->values.end());
    }
    joined.shape = Shape{static_cast<int64_t>(joined.values.size())};
    return joined;
  }

  // One stride over a vector. Of a shape, single known dimensions are enough.
  // Taking the batch's size out of a shape is what model code does most with shapes, and it works there for all
  // dimensions but the batch itself.
  std::optional<Ints> Sliced(const Node& node, int depth) const {
    const std::optional<Ints> begin = Value(node.input(1), depth + 1), end = Value(node.input(2), depth + 1),
                              strides = Value(node.input(3), depth + 1);
    if (!begin || !end || !strides || begin->values.size() != 1 || end->values.size() != 1 ||
        strides->values.size() != 1 || strides->values[0] == 0)
      return std::nullopt;
    const auto mask = [&](std::string_view name) {
      const int64_t* value = node.FindAttr<int64_t>(name);
      return value != nullptr && (*value & 1) != 0;
    };
    if (mask("ellipsis_mask") || mask("new_axis_mask")) return std::nullopt;

    std::vector<int64_t> source;  // unknown dimensions stay kUnknownDim
    const Node& from = *node.input(0).node;
    bool of_shape = false;
    if (from.type() == "Shape") {
      const Shape& shape = shape_of_(from.input(0));
      if (!shape.known_rank()) return std::nullopt;
      source.assign(shape.dims().begin(), shape.dims().end());
      of_shape = true;
    } else {
      const std::optional<Ints> value = Value(node.input(0), depth + 1);
      if (!value || value->shape.rank() != 1) return std::nullopt;
      source = value->values;
    }
    const int64_t size = static_cast<int64_t>(source.size()), stride = strides->values[0];
    const auto clamp = [&](int64_t at) {
      if (at < 0) at += size;
      return stride > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    Ints sliced{node.outputs()[0].dtype, Shape{}, {}};
    if (mask("shrink_axis_mask")) {
      int64_t at = begin->values[0];
      if (at < 0) at += size;
      if (at < 0 || at >= size) return std::nullopt;
      sliced.values = {source[static_cast<size_t>(at)]};
    } else {
      const int64_t first = mask("begin_mask") ? (stride > 0 ? 0 : size - 1) : clamp(begin->values[0]);
      const int64_t last = mask("end_mask") ? (stride > 0 ? size : -1) : clamp(end->values[0]);
      for (int64_t at = first; stride > 0 ? at < last : at > last; at += stride)
        sliced.values.push_back(source[static_cast<size_t>(at)]);
      sliced.shape = Shape{static_cast<int64_t>(sliced.values.size())};
    }
    if (of_shape && std::ranges::count(sliced.values, kUnknownDim) > 0) return std::nullopt;
    return sliced;
  }

  std::optional<Ints> Reshaped(const Node& node, int depth) const {
    std::optional<Ints> value = Value(node.input(0), depth + 1);
    const Shape& shape = node.outputs()[0].shape;
    if (!value || !shape.IsFullyKnown() || shape.elements() != static_cast<int64_t>(value->values.size()))
      return std::nullopt;
    value->shape = shape;
    return value;
  }

  // A vector to a scalar.
  std::optional<Ints> Reduced(const Node& node, int depth) const {
    const std::optional<Ints> value = Value(node.input(0), depth + 1), axes = Value(node.input(1), depth + 1);
    const bool* keep = node.FindAttr<bool>("keep_dims");
    if (!value || value->shape.rank() != 1 || !axes || axes->values.size() != 1 || (keep != nullptr && *keep))
      return std::nullopt;
    if (axes->values[0] != 0 && axes->values[0] != -1) return std::nullopt;
    int64_t result = node.type() == "Prod" ? 1 : 0;
    for (int64_t v : value->values) {
      const bool overflow = node.type() == "Prod" ? __builtin_mul_overflow(result, v, &result)
                                                  : __builtin_add_overflow(result, v, &result);
      if (overflow) return std::nullopt;
    }
    return Ints{value->dtype, Shape{}, {result}};
  }

  // Two operands of one shape, or one of them a scalar.
  std::optional<Ints> Arithmetic(const Node& node, int depth) const {
    const std::string_view op = node.type();
    static constexpr std::string_view kOps[] = {"Add", "AddV2", "Sub", "Mul", "FloorDiv", "Maximum", "Minimum"};
    if (std::ranges::find(kOps, op) == std::end(kOps)) return std::nullopt;
    const std::optional<Ints> a = Value(node.input(0), depth + 1), b = Value(node.input(1), depth + 1);
    if (!a || !b) return std::nullopt;
    if (a->shape != b->shape && a->shape.rank() != 0 && b->shape.rank() != 0) return std::nullopt;
    const Ints& larger = a->shape.rank() == 0 ? *b : *a;
    Ints result{a->dtype, larger.shape, {}};
    for (size_t i = 0; i < larger.values.size(); ++i) {
      const int64_t x = a->values[a->shape.rank() == 0 ? 0 : i], y = b->values[b->shape.rank() == 0 ? 0 : i];
      int64_t z = 0;
      if (op == "Add" || op == "AddV2") {
        if (__builtin_add_overflow(x, y, &z)) return std::nullopt;
      } else if (op == "Sub") {
        if (__builtin_sub_overflow(x, y, &z)) return std::nullopt;
      } else if (op == "Mul") {
        if (__builtin_mul_overflow(x, y, &z)) return std::nullopt;
      } else if (op == "FloorDiv") {
        if (y == 0 || (y == -1 && x == std::numeric_limits<int64_t>::min())) return std::nullopt;
        z = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
      } else {
        z = op == "Maximum" ? std::max(x, y) : std::min(x, y);
      }
      result.values.push_back(z);
    }
    return result;
  }

  const ShapeLookup& shape_of_;
  mutable std::map<std::pair<const Node*, int>, std::optional<Ints>> known_;  // a diamond is folded once
};

}  // namespace

std::optional<Tensor> ConstantValue(Output output, const ShapeLookup& shape_of) {
  if (output.node->type() == "Const") {
    const Tensor* value = output.node->FindAttr<Tensor>("value");
    return value == nullptr ? std::nullopt : std::optional<Tensor>(*value);
  }
  const std::optional<Ints> ints = Folder(shape_of).Value(output, 0);
  if (!ints) return std::nullopt;
  return ToTensor(*ints);
}

}  // namespace rivulet
