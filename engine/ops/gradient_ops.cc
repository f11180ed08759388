#include "engine/ops/gradient_ops.h"

#include <algorithm>

#include "engine/tensor/float16.h"

namespace rivulet {

Output GradientOps::Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs) {
  if (std::any_of(inputs.begin(), inputs.end(), [](const Output& input) { return !input; })) return {};
  return scope_.Op(op, std::move(inputs), std::move(attrs));
}

Node* GradientOps::AddNode(std::string_view op, std::vector<Output> inputs, AttrMap attrs) {
  if (std::any_of(inputs.begin(), inputs.end(), [](const Output& input) { return !input; })) return nullptr;
  return scope_.AddNode(op, std::move(inputs), std::move(attrs));
}

Output GradientOps::Scalar(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return scope_.Const(Tensor::Scalar(static_cast<float>(value)));
    case DType::kFloat64:
      return scope_.Const(Tensor::Scalar(value));
    case DType::kBFloat16:
      return scope_.Const(Tensor::Scalar(bfloat16(static_cast<float>(value))));
    case DType::kFloat16:
      return scope_.Const(Tensor::Scalar(float16(static_cast<float>(value))));
    case DType::kInt32:
      return scope_.Const(Tensor::Scalar(static_cast<int32_t>(value)));
    case DType::kInt64:
      return scope_.Const(Tensor::Scalar(static_cast<int64_t>(value)));
    default:
      scope_.Fail(Unimplemented("gradients of {} tensors", Name(dtype)));
      return {};
  }
}

Output GradientOps::Scale(Output a, double factor) {
  if (!a) return {};
  return Mul(a, Scalar(a.dtype(), factor));
}

Output GradientOps::Ints(std::vector<int64_t> values) {
  Tensor tensor(DType::kInt32, Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < INT32_MIN || values[i] > INT32_MAX) {
      scope_.Fail(InvalidArgument("the size {} is beyond int32", values[i]));
      return {};
    }
    tensor.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
  return scope_.Const(std::move(tensor));
}

Output GradientOps::Int(int64_t value) { return scope_.Const(Tensor::Scalar(static_cast<int32_t>(value))); }

Output GradientOps::AsInt32(Output integers) {
  if (!integers || integers.dtype() == DType::kInt32) return integers;
  return Op("Cast", {integers}, {{"DstT", DType::kInt32}});
}

Output GradientOps::ShapeOf(Output x) {
  if (!x) return {};
  if (x.shape().IsFullyKnown()) return Ints({x.shape().dims().begin(), x.shape().dims().end()});
  return Op("Shape", {x}, {{"out_type", DType::kInt32}});
}

Output GradientOps::ReshapeLike(Output value, Output x) {
  if (!value || !x) return {};
  if (x.shape().IsFullyKnown() && value.shape() == x.shape()) return value;
  return Op("Reshape", {value, ShapeOf(x)});
}

Output GradientOps::SumTo(Output gradient, Output x) {
  if (!gradient || !x) return {};
  const Shape& from = gradient.shape();
  const Shape& to = x.shape();
  bool certain = from.known_rank() && to.known_rank() && from.rank() >= to.rank();
  std::vector<int64_t> leading, kept;
  if (certain) {
    const int extra = from.rank() - to.rank();
    for (int axis = 0; axis < extra; ++axis) leading.push_back(axis);
    for (int axis = 0; axis < to.rank(); ++axis) {
      const int64_t dim = to.dim(axis);
      if (dim == kUnknownDim) certain = false;  // 1, and then broadcast, or not
      if (dim == 1 && from.dim(axis + extra) != 1) kept.push_back(axis);
    }
  }
  if (!certain) {
    Node* args = AddNode("BroadcastGradientArgs", {ShapeOf(x), ShapeOf(gradient)});
    if (args == nullptr) return {};
    return Op("Reshape", {Sum(gradient, args->output(0), /*keep_dims=*/false), ShapeOf(x)});
  }
  if (!leading.empty()) gradient = Sum(gradient, Ints(leading), /*keep_dims=*/false);
  if (!kept.empty()) gradient = Sum(gradient, Ints(kept), /*keep_dims=*/true);
  return gradient;
}

Output GradientOps::Sum(Output x, Output axes, bool keep_dims) {
  return Op("Sum", {x, axes}, {{"keep_dims", keep_dims}});
}

Output GradientOps::KeepDims(Output value, Output x, Output axes) {
  if (!value || !x || !axes) return {};
  const auto known_axes = ConstantIntegers(axes);
  if (known_axes && x.shape().known_rank()) {
    std::vector<int64_t> sorted;
    for (int64_t axis : *known_axes) sorted.push_back(axis < 0 ? axis + x.shape().rank() : axis);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t axis : sorted) value = Op("ExpandDims", {value, Int(axis)});
    return value;
  }
  // x's shape with a 1 at each reduced axis.
  const Output shape = ShapeOf(x);
  const Output rank = Op("Size", {shape});
  const Output positive = Op("SelectV2", {Op("Less", {axes, Scalar(axes.dtype(), 0)}),
                                          Add(axes, Op("Cast", {rank}, {{"DstT", axes.dtype()}})), axes});
  const Output indices = Op("Cast", {positive}, {{"DstT", DType::kInt32}});
  Node* kept = AddNode("DynamicStitch",
                       {Op("Range", {Int(0), rank, Int(1)}), indices, shape, Op("Fill", {ShapeOf(indices), Int(1)})});
  if (kept == nullptr) return {};
  return Op("Reshape", {value, kept->output(0)});
}

Output GradientOps::BroadcastLike(Output value, Output x) {
  if (!value || !x) return {};
  if (x.shape().IsFullyKnown() && value.shape() == x.shape()) return value;
  return Op("BroadcastTo", {value, ShapeOf(x)});
}

std::optional<std::vector<int64_t>> ConstantIntegers(Output output) {
  if (!output || output.node->type() != "Const") return std::nullopt;
  const Tensor& value = output.node->attr<Tensor>("value");
  std::vector<int64_t> integers;
  if (value.dtype() == DType::kInt32) {
    for (int32_t v : value.flat<int32_t>()) integers.push_back(v);
  } else if (value.dtype() == DType::kInt64) {
    for (int64_t v : value.flat<int64_t>()) integers.push_back(v);
  } else {
    return std::nullopt;
  }
  return integers;
}

Status NoGradient(GradientContext&) { return absl::OkStatus(); }

Status PassGradient(GradientContext& g) {
  g.set_input_grad(0, g.grad());
  return absl::OkStatus();
}

}  // namespace rivulet
