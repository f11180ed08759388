// Where values come from: constants, copies, casts, dropout, ranges, random numbers.
#include <cmath>

#include "engine/onnx/operator.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

template <typename T, typename Values>
Tensor VectorOf(const Values& values) {
  return Tensor::Of<T>(Shape{static_cast<int64_t>(values.size())}, std::span<const T>(values));
}

Status Constant(NodeContext& n) {
  const Builder& b = n.b();
  if (n.has_attr("value_float")) {
    n.set_output(0, b.Const(Tensor::Scalar(static_cast<float>(n.Float("value_float", 0)))));
  } else if (n.has_attr("value_int")) {
    n.set_output(0, b.Int(n.Int("value_int", 0)));
  } else if (n.has_attr("value_floats")) {
    n.set_output(0, b.Const(VectorOf<float>(n.Floats("value_floats"))));
  } else if (n.has_attr("value_ints")) {
    n.set_output(0, b.Ints(n.Ints("value_ints")));
  } else {
    for (const char* other : {"value_string", "value_strings", "sparse_value"})
      RIVULET_RETURN_IF_ERROR(n.Refuse(other));
    RIVULET_ASSIGN_OR_RETURN(Tensor value, n.TensorAttr("value"));
    n.set_output(0, b.Const(std::move(value)));
  }
  return n.status();
}
RIVULET_ONNX("Constant", Constant);

RIVULET_ONNX("Identity", [](NodeContext& n) {
  n.set_output(0, n.b().Op("Identity", {n.input(0)}));
  return n.status();
});

Status ConstantOfShape(NodeContext& n) {
  Output value = n.b().Const(Tensor::Scalar(0.0f));
  if (n.has_attr("value")) {
    RIVULET_ASSIGN_OR_RETURN(Tensor tensor, n.TensorAttr("value"));
    if (tensor.elements() != 1) return InvalidArgument("the value has {} elements, not one", tensor.elements());
    value = n.b().Reshape(n.b().Const(std::move(tensor)), std::vector<int64_t>{});
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> dims, n.IntElements(0));
  std::vector<Output> sizes;
  for (size_t i = 0; i < dims.size(); ++i) sizes.push_back(n.Element(0, dims, i));
  n.set_output(0, n.b().Op("Fill", {n.b().Vector(sizes), value}));
  return n.status();
}
RIVULET_ONNX("ConstantOfShape", ConstantOfShape);

Status Cast(NodeContext& n) {
  if (n.opset() < 6) {
    RIVULET_ASSIGN_OR_RETURN(const DType named, DTypeFromName(n.String("to", "")));
    n.set_output(0, n.b().Op("Identity", {n.b().Cast(n.input(0), named)}));
    return n.status();
  }
  RIVULET_ASSIGN_OR_RETURN(const DType to, DTypeFromOnnx(static_cast<int>(n.Int("to", 0))));
  n.set_output(0, n.b().Op("Identity", {n.b().Cast(n.input(0), to)}));
  return n.status();
}
RIVULET_ONNX("Cast", Cast);

Status CastLike(NodeContext& n) {
  const Output like = n.input(1);
  n.set_output(0, n.b().Op("Identity", {n.b().Cast(n.input(0), TypeOf(like))}));
  return n.status();
}
RIVULET_ONNX("CastLike", CastLike);

// Training mode is an attribute until opset 6 (is_test), the mere wish for a mask until 11, an input since.
Status Dropout(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  bool training = n.opset() < 7 && !n.Flag("is_test", false);
  double ratio = n.Float("ratio", 0.5);
  if (n.opset() >= 12) {
    training = false;
    if (n.has_input(2)) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t mode, n.IntValue(2));
      training = mode != 0;
    }
  }
  training = n.Trains(training);
  if (n.opset() >= 12 && n.has_input(1) && training) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<double> value, n.NumberValues(1));
    if (value.size() != 1) return InvalidArgument("the ratio has {} elements, not one", value.size());
    ratio = value[0];
  }
  if (!(ratio >= 0 && ratio < 1)) return InvalidArgument("the ratio is {}, not in [0, 1)", ratio);
  if (!training || ratio == 0) {
    n.set_output(0, b.Op("Identity", {x}));
    if (n.wants_output(1)) {
      const DType mask = n.opset() < 10 ? TypeOf(x) : DType::kBool;
      n.set_output(1, b.Filled(mask, b.Dims(x), 1));
    }
    return n.status();
  }
  // Drawn anew in each run, from the run's own stream: not the numbers another runtime draws.
  const Output draw = b.Op("RandomUniform", {b.Dims(x)}, {{"dtype", DType::kFloat32}});
  const Output kept = b.Op("GreaterEqual", {draw, b.ScalarLike(draw, ratio)});
  n.set_output(0, b.Mul(b.Times(x, 1 / (1 - ratio)), b.Cast(kept, TypeOf(x))));
  if (n.wants_output(1)) n.set_output(1, n.opset() < 10 ? b.Cast(kept, TypeOf(x)) : kept);
  return n.status();
}
RIVULET_ONNX("Dropout", Dropout);

// The number of elements follows from shapes and constants: the engine's Range where it has the type.
Status Range(NodeContext& n) {
  const Output start = n.input(0), limit = n.input(1), delta = n.input(2);
  if (!n.status().ok()) return n.status();
  for (int i : {0, 1, 2})
    RIVULET_RETURN_IF_ERROR(IsFloating(TypeOf(n.input(i))) ? n.Value(i).status() : n.IntElements(i).status());
  const Builder& b = n.b();
  const auto scalar = [&](Output x) { return b.Reshape(x, std::vector<int64_t>{}); };
  n.set_output(0, b.Op("Range", {scalar(start), scalar(limit), scalar(delta)}));
  return n.status();
}
RIVULET_ONNX("Range", Range);

// Random tensors are drawn from the run's own stream; `seed` names another stream, not another runtime's numbers.
Status Random(NodeContext& n, bool like, bool normal) {
  const Builder& b = n.b();
  DType dtype = like ? TypeOf(n.input(0)) : DType::kFloat32;
  if (n.has_attr("dtype")) {
    RIVULET_ASSIGN_OR_RETURN(dtype, DTypeFromOnnx(static_cast<int>(n.Int("dtype", 1))));
  }
  const Output dims = like ? b.Dims(n.input(0)) : b.Ints(n.Ints("shape"));
  const Output draw = b.Op(normal ? "RandomStandardNormal" : "RandomUniform", {dims}, {{"dtype", DType::kFloat32}});
  const double low = normal ? n.Float("mean", 0) : n.Float("low", 0);
  const double range = normal ? n.Float("scale", 1) : n.Float("high", 1) - low;
  n.set_output(0, b.Cast(b.Plus(b.Times(draw, range), low), dtype));
  return n.status();
}
RIVULET_ONNX("RandomUniform", [](NodeContext& n) { return Random(n, false, false); });
RIVULET_ONNX("RandomNormal", [](NodeContext& n) { return Random(n, false, true); });
RIVULET_ONNX("RandomUniformLike", [](NodeContext& n) { return Random(n, true, false); });
RIVULET_ONNX("RandomNormalLike", [](NodeContext& n) { return Random(n, true, true); });

}  // namespace
}  // namespace rivulet::onnx
