// Activation functions.
#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

Status Relu(NodeContext& n) {
  const Output x = n.input(0);
  n.set_output(0, IsFloating(TypeOf(x)) ? n.b().Op("Relu", {x}) : n.b().Maximum(x, n.b().ScalarLike(x, 0)));
  return n.status();
}
RIVULET_ONNX("Relu", Relu);

RIVULET_ONNX("Sigmoid", [](NodeContext& n) {
  n.set_output(0, n.b().Op("Sigmoid", {n.input(0)}));
  return n.status();
});
RIVULET_ONNX("Softplus", [](NodeContext& n) {
  n.set_output(0, n.b().Op("Softplus", {n.input(0)}));
  return n.status();
});

// x where positive, else `negative`.
Output PositiveOr(const Builder& b, Output x, Output negative) {
  return b.Select(b.Op("Greater", {x, b.ScalarLike(x, 0)}), x, negative);
}
// e^x - 1 for x <= 0, and 0 elsewhere, so that a branch that is not selected cannot overflow.
Output ExpLessOne(const Builder& b, Output x) {
  const Output negative = b.Minimum(x, b.ScalarLike(x, 0));
  if (Builder::Has("Expm1")) return b.Op("Expm1", {negative});
  return b.Plus(b.Exp(negative), -1);
}

Status LeakyRelu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double alpha = n.Float("alpha", 0.01);
  if (Builder::Has("LeakyRelu")) {
    n.set_output(0, b.Op("LeakyRelu", {x}, {{"alpha", static_cast<float>(alpha)}}));
  } else {
    n.set_output(0, PositiveOr(b, x, b.Times(x, alpha)));
  }
  return n.status();
}
RIVULET_ONNX("LeakyRelu", LeakyRelu);

// The slope is broadcast to x; before opset 7, a vector of slopes stood for channels.
Status PRelu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  Output slope = n.input(1);
  if (!n.status().ok()) return n.status();
  const Shape &shape = ShapeOf(x), &slopes = ShapeOf(slope);
  if (n.opset() < 7 && slopes.known_rank() && slopes.rank() == 1 && shape.known_rank() && shape.rank() > 2) {
    std::vector<int64_t> dims(static_cast<size_t>(shape.rank() - 1), 1);
    dims[0] = -1;
    slope = b.Reshape(slope, dims);
  }
  n.set_output(0, b.Select(b.Less(x, b.ScalarLike(x, 0)), b.Mul(slope, x), x));
  return n.status();
}
RIVULET_ONNX("PRelu", PRelu);

Status Elu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double alpha = n.Float("alpha", 1);
  n.set_output(
      0, alpha == 1 && Builder::Has("Elu") ? b.Op("Elu", {x}) : PositiveOr(b, x, b.Times(ExpLessOne(b, x), alpha)));
  return n.status();
}
RIVULET_ONNX("Elu", Elu);

// The published constants in float32, which are those of our Selu.
Status Selu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double alpha = n.Float("alpha", 1.67326319217681884765625), gamma = n.Float("gamma", 1.05070102214813232421875);
  const bool published = static_cast<float>(alpha) == 1.67326319217681884765625f &&
                         static_cast<float>(gamma) == 1.05070102214813232421875f;
  n.set_output(0, published && Builder::Has("Selu")
                      ? b.Op("Selu", {x})
                      : b.Times(PositiveOr(b, x, b.Times(ExpLessOne(b, x), alpha)), gamma));
  return n.status();
}
RIVULET_ONNX("Selu", Selu);

// max(0, x) + min(0, alpha (e^(x / alpha) - 1)).
Status Celu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double alpha = n.Float("alpha", 1);
  n.set_output(0, PositiveOr(b, x, b.Times(ExpLessOne(b, b.Times(x, 1 / alpha)), alpha)));
  return n.status();
}
RIVULET_ONNX("Celu", Celu);

Output Clamped(const Builder& b, Output x, double low, double high) {
  return b.Minimum(b.Maximum(x, b.ScalarLike(x, low)), b.ScalarLike(x, high));
}

Status HardSigmoid(NodeContext& n) {
  const Builder& b = n.b();
  const Output line = b.Plus(b.Times(n.input(0), n.Float("alpha", 0.2)), n.Float("beta", 0.5));
  n.set_output(0, Clamped(b, line, 0, 1));
  return n.status();
}
RIVULET_ONNX("HardSigmoid", HardSigmoid);

Status HardSwish(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  n.set_output(0, b.Mul(x, Clamped(b, b.Plus(b.Times(x, 1.0 / 6), 0.5), 0, 1)));
  return n.status();
}
RIVULET_ONNX("HardSwish", HardSwish);

Status Mish(NodeContext& n) {
  const Output x = n.input(0);
  n.set_output(0, n.b().Mul(x, n.b().Op("Tanh", {n.b().Op("Softplus", {x})})));
  return n.status();
}
RIVULET_ONNX("Mish", Mish);

Status Softsign(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  n.set_output(0, Builder::Has("Softsign") ? b.Op("Softsign", {x}) : b.Div(x, b.Plus(b.Op("Abs", {x}), 1)));
  return n.status();
}
RIVULET_ONNX("Softsign", Softsign);

Output SwishOf(const Builder& b, Output x, double alpha) {
  return b.Mul(x, b.Op("Sigmoid", {alpha == 1 ? x : b.Times(x, alpha)}));
}
RIVULET_ONNX("Swish", [](NodeContext& n) {
  n.set_output(0, SwishOf(n.b(), n.input(0), n.Float("alpha", 1)));
  return n.status();
});

RIVULET_ONNX("SwiGLU", [](NodeContext& n) {
  n.set_output(0, n.b().Mul(SwishOf(n.b(), n.input(0), n.Float("alpha", 1)), n.input(1)));
  return n.status();
});

Status Gelu(NodeContext& n) {
  const std::string approximate = n.String("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.Fail(InvalidArgument("approximate = '{}' is neither none nor tanh", approximate));
  n.set_output(0, n.b().Op("Gelu", {n.input(0)}, {{"approximate", approximate == "tanh"}}));
  return n.status();
}
RIVULET_ONNX("Gelu", Gelu);

Status ThresholdedRelu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const Output above = b.Op("Greater", {x, b.ScalarLike(x, n.Float("alpha", 1))});
  n.set_output(0, b.Select(above, x, b.ScalarLike(x, 0)));
  return n.status();
}
RIVULET_ONNX("ThresholdedRelu", ThresholdedRelu);

Status Shrink(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double lambda = n.Float("lambd", 0.5), bias = n.Float("bias", 0);
  const DType dtype = TypeOf(x);
  // Also for integers, whose threshold need not be an integer.
  const Output wide = IsFloating(dtype) ? x : b.Cast(x, DType::kFloat64);
  const Output low = b.Select(b.Less(wide, b.ScalarLike(wide, -lambda)), b.Plus(wide, bias), b.ScalarLike(wide, 0));
  n.set_output(0,
               b.Cast(b.Select(b.Op("Greater", {wide, b.ScalarLike(wide, lambda)}), b.Plus(wide, -bias), low), dtype));
  return n.status();
}
RIVULET_ONNX("Shrink", Shrink);

// Until opset 12 the input counts as a matrix: the axes before `axis` (1) are rows, the others one column axis.
Status OverAxis(NodeContext& n, Output (*function)(const Builder& b, Output last)) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const bool flattened = n.opset() < 13;
  if (rank == 0) {
    n.set_output(0, b.Reshape(function(b, b.Reshape(x, {1, 1})), std::vector<int64_t>{}));
    return n.status();
  }
  const int64_t wanted = n.Int("axis", flattened ? 1 : -1);
  if (flattened && wanted == rank) {
    n.set_output(0, b.ReshapeLike(function(b, b.Reshape(x, {-1, 1})), x));
    return n.status();
  }
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(wanted, rank));
  if (flattened && rank != axis + 1) {
    std::vector<Output> dims;
    int64_t columns = 1;
    for (int i = axis; i < rank; ++i) {
      const int64_t size = DimOf(x, i);
      columns = size == kUnknownDim || columns == kUnknownDim ? kUnknownDim : columns * size;
    }
    if (columns <= 0) return FailedPrecondition("the sizes of input 0 from axis {} on must be known", axis);
    n.set_output(0, b.ReshapeLike(function(b, b.Reshape(x, {-1, columns})), x));
    return n.status();
  }
  n.set_output(0, b.FromLast(function(b, b.ToLast(x, axis)), axis));
  return n.status();
}

// Our softmax takes rows.
Output Rows(const Builder& b, Output x, std::string_view op) {
  const int rank = ShapeOf(x).rank();
  if (rank == 1) return b.Squeeze(b.Op(op, {b.ExpandDims(x, 0)}), 0);
  return b.Op(op, {x});
}
RIVULET_ONNX("Softmax", [](NodeContext& n) {
  return OverAxis(n, [](const Builder& b, Output x) { return Rows(b, x, "Softmax"); });
});
RIVULET_ONNX("LogSoftmax", [](NodeContext& n) {
  return OverAxis(n, [](const Builder& b, Output x) { return Rows(b, x, "LogSoftmax"); });
});

// 1 at the first largest element.
Output HardmaxOf(const Builder& b, Output x) {
  const int last = ShapeOf(x).rank() - 1;
  const int64_t depth = DimOf(x, last);
  if (depth == kUnknownDim) {
    b.Fail(FailedPrecondition("the size of the axis must be known"));
    return {};
  }
  const Output largest = b.Op("ArgMax", {x, b.Int32(last)}, {{"output_type", DType::kInt64}});
  return b.Op("OneHot", {largest, b.Int32(depth), b.ScalarLike(x, 1), b.ScalarLike(x, 0)});
}
RIVULET_ONNX("Hardmax", [](NodeContext& n) { return OverAxis(n, HardmaxOf); });

}  // namespace
}  // namespace rivulet::onnx
