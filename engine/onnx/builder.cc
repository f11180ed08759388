#include "engine/onnx/builder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"
#include "engine/program/via_float32.h"

namespace rivulet::onnx {
namespace {

constexpr int kMaxRank = 32;  // masks of StridedSlice

std::vector<DType> WiderThan(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kUint8:
    case DType::kUint16:
      return {DType::kInt32, DType::kInt64, DType::kFloat32};
    case DType::kInt32:
    case DType::kUint32:
    case DType::kUint64:
      return {DType::kInt64};
    case DType::kFloat16:
    case DType::kBFloat16:
      return {DType::kFloat32};
    default:
      return {};
  }
}

bool Allows(const AttrDef& attr, DType dtype) {
  return attr.allowed_types.empty() || std::ranges::find(attr.allowed_types, dtype) != attr.allowed_types.end();
}

// The attribute by which kernels are chosen (engine/program/kernel.h).
const AttrDef* KernelAttr(const OpDef& op) {
  if (const AttrDef* t = op.FindAttr("T")) return t;
  for (const AttrDef& attr : op.attrs)
    if (attr.kind == AttrDef::Kind::kType) return &attr;
  return nullptr;
}

bool Runs(const OpDef& op, const AttrDef& attr, DType dtype) {
  if (!Allows(attr, dtype)) return false;
  if (&attr != KernelAttr(op) || StructuralKind(op.name) != StructuralOp::kNone) return true;
  // An op without any kernel is reported when the program is bound.
  return !KernelRegistry::Global().Has(op.name, Device::kCpu) || HasKernelFor(op.name, Device::kCpu, dtype);
}

// For each type attribute, the type to use in place of `dtype`.
DType Taken(const OpDef& op, const AttrDef& attr, DType dtype) {
  if (Runs(op, attr, dtype)) return dtype;
  for (DType wider : WiderThan(dtype))
    if (Runs(op, attr, wider)) return wider;
  return dtype;  // the graph then reports the error
}

// At most one size is unknown, and it follows from the others: a reshape may leave it to the number of elements.
bool LeavesOneOpen(std::span<const int64_t> sizes) {
  const auto open = std::ranges::count(sizes, kUnknownDim);
  return open == 0 || (open == 1 && std::ranges::find(sizes, 0) == sizes.end());
}

template <typename T>
Tensor IntegerVector(const std::vector<int64_t>& values) {
  Tensor tensor(kDTypeOf<T>, Shape{static_cast<int64_t>(values.size())});
  std::ranges::transform(values, tensor.flat<T>().begin(), [](int64_t value) { return static_cast<T>(value); });
  return tensor;
}

template <typename T>
Tensor Number(double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const double low = static_cast<double>(std::numeric_limits<T>::min());
    const double high = static_cast<double>(std::numeric_limits<T>::max());
    if (value <= low) return Tensor::Scalar(std::numeric_limits<T>::min());
    if (value >= high) return Tensor::Scalar(std::numeric_limits<T>::max());
  }
  return Tensor::Scalar(static_cast<T>(value));
}

}  // namespace

DType TypeOf(Output x) { return x ? x.dtype() : DType::kInvalid; }

const Shape& ShapeOf(Output x) {
  static const Shape unknown = Shape::UnknownRank();
  return x ? x.shape() : unknown;
}

int64_t DimOf(Output x, int axis) {
  const Shape& shape = ShapeOf(x);
  return shape.known_rank() && axis >= 0 && axis < shape.rank() ? shape.dim(axis) : kUnknownDim;
}

std::vector<Output> Builder::All(std::string_view op, std::vector<Output> inputs, AttrMap attrs) const {
  if (!status().ok() || std::ranges::any_of(inputs, [](const Output& x) { return !x; })) return {};
  const OpDef* def = OpRegistry::Global().Find(op);
  std::vector<std::pair<std::string, DType>> casts;  // type attributes, and the types to which outputs are cast back
  if (def != nullptr) {
    for (const AttrDef& attr : def->attrs) {
      if (attr.kind != AttrDef::Kind::kType) continue;
      size_t next = 0;
      for (const ArgDef& arg : def->inputs) {
        const size_t count =
            arg.number_attr.empty() ? 1 : inputs.size() - std::min(inputs.size(), def->inputs.size() - 1);
        for (size_t i = 0; i < count && next < inputs.size(); ++i, ++next) {
          if (arg.type_attr != attr.name) continue;
          const DType taken = Taken(*def, attr, inputs[next].dtype());
          if (taken == inputs[next].dtype()) continue;
          if (casts.empty() || casts.back().first != attr.name) casts.emplace_back(attr.name, inputs[next].dtype());
          inputs[next] = Cast(inputs[next], taken);
        }
      }
    }
  }
  Node* node = scope_.AddNode(op, std::move(inputs), std::move(attrs), {}, std::source_location());
  if (node == nullptr) return {};
  std::vector<Output> outputs;
  int port = 0;
  for (const ArgDef& arg : def->outputs) {
    const int count = arg.number_attr.empty() ? 1 : static_cast<int>(node->outputs().size() - def->outputs.size() + 1);
    for (int i = 0; i < count; ++i, ++port) {
      Output output = node->output(port);
      for (const auto& [attr, dtype] : casts)
        if (arg.type_attr == attr) output = Cast(output, dtype);
      outputs.push_back(output);
    }
  }
  return outputs;
}

Output Builder::Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs) const {
  const std::vector<Output> outputs = All(op, std::move(inputs), std::move(attrs));
  return outputs.empty() ? Output{} : outputs[0];
}

Output Builder::Ints(const std::vector<int64_t>& values) const { return Const(IntegerVector<int64_t>(values)); }
Output Builder::Int(int64_t value) const { return Const(Tensor::Scalar(value)); }
Output Builder::Int32(int64_t value) const { return Const(Tensor::Scalar(static_cast<int32_t>(value))); }
Output Builder::Int32s(const std::vector<int64_t>& values) const { return Const(IntegerVector<int32_t>(values)); }

Output Builder::Scalar(DType dtype, double value) const {
  switch (dtype) {
    case DType::kFloat32:
      return Const(Number<float>(value));
    case DType::kFloat64:
      return Const(Number<double>(value));
    case DType::kInt8:
      return Const(Number<int8_t>(value));
    case DType::kInt16:
      return Const(Number<int16_t>(value));
    case DType::kInt32:
      return Const(Number<int32_t>(value));
    case DType::kInt64:
      return Const(Number<int64_t>(value));
    case DType::kUint8:
      return Const(Number<uint8_t>(value));
    case DType::kUint16:
      return Const(Number<uint16_t>(value));
    case DType::kUint32:
      return Const(Number<uint32_t>(value));
    case DType::kUint64:
      return Const(Number<uint64_t>(value));
    case DType::kBool:
      return Const(Tensor::Scalar(value != 0));
    case DType::kFloat16:
    case DType::kBFloat16:
      return Cast(Const(Number<float>(value)), dtype);
    default:
      if (status().ok()) Fail(InvalidArgument("a constant of type {}", Name(dtype)));
      return {};
  }
}

Output Builder::Filled(DType dtype, Output dims, double value) const {
  return Op("Fill", {dims, Scalar(dtype, value)});
}

Output Builder::Cast(Output x, DType to) const {
  if (!x || TypeOf(x) == to) return x;
  return scope_.Op("Cast", {x}, {{"DstT", to}}, {}, std::source_location());
}

Output Builder::Div(Output a, Output b) const { return Op(IsFloating(TypeOf(a)) ? "RealDiv" : "Div", {a, b}); }

Output Builder::Select(Output condition, Output then, Output otherwise) const {
  return Op("SelectV2", {condition, then, otherwise});
}

Output Builder::Reshape(Output x, const std::vector<int64_t>& dims) const {
  const Shape& shape = ShapeOf(x);
  if (shape.known_rank() && std::ranges::equal(shape.dims(), dims) && shape.IsFullyKnown()) return x;
  return Op("Reshape", {x, Ints(dims)});
}

Output Builder::Shaped(Output x, const std::vector<Output>& dims) const {
  if (dims.empty()) return Reshape(x, std::vector<int64_t>{});
  std::vector<int64_t> sizes;
  for (Output dim : dims) {
    if (!dim) return {};
    const bool known = dim.node->type() == "Const" && dim.dtype() == DType::kInt64 && dim.shape().rank() == 0;
    sizes.push_back(known ? dim.node->attr<Tensor>("value").flat<int64_t>()[0] : kUnknownDim);
  }
  if (LeavesOneOpen(sizes)) return Reshape(x, sizes);
  return Op("Reshape", {x, Stack(dims, 0)});
}

Output Builder::ReshapeLike(Output x, Output like) const {
  const auto& shape = ShapeOf(like);
  if (shape.known_rank() && LeavesOneOpen(shape.dims())) return Reshape(x, {shape.dims().begin(), shape.dims().end()});
  return Op("Reshape", {x, Dims(like)});
}

Output Builder::Transpose(Output x, const std::vector<int64_t>& perm) const {
  std::vector<int64_t> identity(perm.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (perm == identity) return x;
  return Op("Transpose", {x, Int32s(perm)});
}

Output Builder::Slice(Output x, int axis, int64_t begin, int64_t end, int64_t stride) const {
  if (axis < 0 || axis >= kMaxRank) {
    if (status().ok()) Fail(Unimplemented("a slice of axis {}", axis));
    return {};
  }
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<int64_t> begins(size, 0), ends(size, 0), strides(size, 1);
  begins.back() = begin;
  ends.back() = end;
  strides.back() = stride;
  const int64_t others = (int64_t{1} << axis) - 1;
  return Op("StridedSlice", {x, Ints(begins), Ints(ends), Ints(strides)},
            {{"begin_mask", others}, {"end_mask", others}});
}

Output Builder::From(Output x, int axis, int64_t begin, int64_t stride) const {
  if (axis < 0 || axis >= kMaxRank) return Slice(x, axis, 0, 0);
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<int64_t> begins(size, 0), ends(size, 0), strides(size, 1);
  begins.back() = begin;
  strides.back() = stride;
  const int64_t others = (int64_t{1} << axis) - 1;
  return Op("StridedSlice", {x, Ints(begins), Ints(ends), Ints(strides)},
            {{"begin_mask", others}, {"end_mask", others | (int64_t{1} << axis)}});
}

Output Builder::At(Output x, int axis, int64_t index) const {
  if (axis < 0 || axis >= kMaxRank) return Slice(x, axis, 0, 0);
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<int64_t> begins(size, 0), ends(size, 0), strides(size, 1);
  begins.back() = index;
  ends.back() = index + 1;
  const int64_t others = (int64_t{1} << axis) - 1;
  return Op("StridedSlice", {x, Ints(begins), Ints(ends), Ints(strides)},
            {{"begin_mask", others}, {"end_mask", others}, {"shrink_axis_mask", int64_t{1} << axis}});
}

Output Builder::Concat(const std::vector<Output>& parts, int axis) const {
  if (parts.size() == 1) return parts[0];
  std::vector<Output> inputs = parts;
  inputs.push_back(Int32(axis));
  return Op("ConcatV2", std::move(inputs));
}

Output Builder::Stack(const std::vector<Output>& parts, int axis) const {
  return Op("Pack", parts, {{"axis", int64_t{axis}}});
}

Output Builder::ExpandDims(Output x, int axis) const { return Op("ExpandDims", {x, Int32(axis)}); }
Output Builder::Squeeze(Output x, int axis) const {
  return Op("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{axis}}});
}
Output Builder::BroadcastTo(Output x, Output dims) const { return Op("BroadcastTo", {x, dims}); }

Output Builder::Pad(Output x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                    double value) const {
  if (value != 0) return Pad(x, before, after, ScalarLike(x, value));
  const auto none = [](int64_t amount) { return amount == 0; };
  if (std::ranges::all_of(before, none) && std::ranges::all_of(after, none)) return x;
  std::vector<int64_t> pairs;
  for (size_t i = 0; i < before.size(); ++i) pairs.insert(pairs.end(), {before[i], after[i]});
  return Op("Pad", {x, Reshape(Ints(pairs), {static_cast<int64_t>(before.size()), 2})});
}

Output Builder::Pad(Output x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                    Output value) const {
  const auto none = [](int64_t amount) { return amount == 0; };
  if (std::ranges::all_of(before, none) && std::ranges::all_of(after, none)) return x;
  if (Has("PadV2")) {
    std::vector<int64_t> pairs;
    for (size_t i = 0; i < before.size(); ++i) pairs.insert(pairs.end(), {before[i], after[i]});
    return Op("PadV2", {x, Reshape(Ints(pairs), {static_cast<int64_t>(before.size()), 2}), value});
  }
  for (size_t axis = 0; axis < before.size(); ++axis) {
    const auto border = [&](int64_t amount) {
      std::vector<Output> dims;
      for (int i = 0; i < ShapeOf(x).rank(); ++i) dims.push_back(i == static_cast<int>(axis) ? Int(amount) : Dim(x, i));
      return Op("Fill", {Stack(dims, 0), value});
    };
    std::vector<Output> parts;
    if (before[axis] > 0) parts.push_back(border(before[axis]));
    parts.push_back(x);
    if (after[axis] > 0) parts.push_back(border(after[axis]));
    x = Concat(parts, static_cast<int>(axis));
  }
  return x;
}

Output Builder::Reduce(std::string_view op, Output x, const std::vector<int64_t>& axes, bool keep_dims) const {
  return Op(op, {x, Int32s(axes)}, {{"keep_dims", keep_dims}});
}

Output Builder::MatMul(Output a, Output b, bool transpose_a, bool transpose_b) const {
  if (ShapeOf(a).known_rank() && ShapeOf(b).known_rank() && ShapeOf(a).rank() == 2 && ShapeOf(b).rank() == 2)
    return Op("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  return Op("BatchMatMulV2", {a, b}, {{"adj_x", transpose_a}, {"adj_y", transpose_b}});
}

Output Builder::Dim(Output x, int axis) const {
  if (const int64_t known = DimOf(x, axis); known != kUnknownDim) return Int(known);
  return At(Dims(x), 0, axis);
}

Output Builder::Dims(Output x) const {
  const Shape& shape = ShapeOf(x);
  if (shape.IsFullyKnown()) return Ints({shape.dims().begin(), shape.dims().end()});
  return Op("Shape", {x}, {{"out_type", DType::kInt64}});
}

Output Builder::Iota(int64_t size, int rank, int axis) const {
  if (size < 0 || size > (int64_t{1} << 24)) {
    if (status().ok()) Fail(ResourceExhausted("positions along an axis of {}", size));
    return {};
  }
  std::vector<int64_t> values(static_cast<size_t>(size)), dims(static_cast<size_t>(rank), 1);
  std::iota(values.begin(), values.end(), 0);
  if (rank > 0) dims[static_cast<size_t>(axis)] = size;
  return Reshape(Ints(values), dims);
}

Output Builder::Positions(Output x, int of, int rank, int axis) const {
  if (const int64_t size = DimOf(x, of); size != kUnknownDim) return Iota(size, rank, axis);
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  if (rank > 0) dims[static_cast<size_t>(axis)] = -1;
  return Reshape(Op("Range", {Int(0), Dim(x, of), Int(1)}), dims);
}

Output Builder::Vector(const std::vector<Output>& scalars) const {
  std::vector<int64_t> numbers;
  for (const Output& scalar : scalars) {
    if (!scalar) return {};
    if (scalar.node->type() == "Const") numbers.push_back(scalar.node->attr<Tensor>("value").flat<int64_t>()[0]);
  }
  return numbers.size() == scalars.size() ? Ints(numbers) : Stack(scalars, 0);
}

Output Builder::ToLast(Output x, int axis) const {
  std::vector<int64_t> perm;
  for (int i = 0; i < ShapeOf(x).rank(); ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  return Transpose(x, perm);
}

Output Builder::FromLast(Output x, int axis) const {
  std::vector<int64_t> perm;
  const int last = ShapeOf(x).rank() - 1;
  for (int i = 0; i < last; ++i) perm.push_back(i);
  perm.insert(perm.begin() + std::min(axis, std::max(last, 0)), last);
  return Transpose(x, perm);
}

}  // namespace rivulet::onnx
