// Arithmetic, comparison and logic, element by element.
#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

bool IsInteger(DType dtype) { return !IsFloating(dtype) && dtype != DType::kBool; }

// One operator of one input, by its name in ONNX.
#define RIVULET_SAME_UNARY(op, onnx) \
  RIVULET_ONNX_EXPORT(               \
      op, [](ExportContext& n) { return Elementwise(n, [&](const Value& x) { return n.Op(onnx, {x}); }); })

RIVULET_SAME_UNARY("Abs", "Abs");
RIVULET_SAME_UNARY("Neg", "Neg");
RIVULET_SAME_UNARY("Sign", "Sign");
RIVULET_SAME_UNARY("Sqrt", "Sqrt");
RIVULET_SAME_UNARY("Exp", "Exp");
RIVULET_SAME_UNARY("Log", "Log");
RIVULET_SAME_UNARY("Erf", "Erf");
RIVULET_SAME_UNARY("Floor", "Floor");
RIVULET_SAME_UNARY("Ceil", "Ceil");
RIVULET_SAME_UNARY("Rint", "Round");
RIVULET_SAME_UNARY("Reciprocal", "Reciprocal");
RIVULET_SAME_UNARY("Inv", "Reciprocal");
RIVULET_SAME_UNARY("Sin", "Sin");
RIVULET_SAME_UNARY("Cos", "Cos");
RIVULET_SAME_UNARY("Tan", "Tan");
RIVULET_SAME_UNARY("Asin", "Asin");
RIVULET_SAME_UNARY("Acos", "Acos");
RIVULET_SAME_UNARY("Atan", "Atan");
RIVULET_SAME_UNARY("Sinh", "Sinh");
RIVULET_SAME_UNARY("Cosh", "Cosh");
RIVULET_SAME_UNARY("Asinh", "Asinh");
RIVULET_SAME_UNARY("Acosh", "Acosh");
RIVULET_SAME_UNARY("Atanh", "Atanh");
RIVULET_SAME_UNARY("IsNan", "IsNaN");
RIVULET_SAME_UNARY("IsInf", "IsInf");
RIVULET_SAME_UNARY("LogicalNot", "Not");
RIVULET_SAME_UNARY("Invert", "BitwiseNot");

// Those composed of several.
#define RIVULET_UNARY(op, expression) \
  RIVULET_ONNX_EXPORT(op, [](ExportContext& n) { return Elementwise(n, [&](const Value& x) { return expression; }); })

RIVULET_UNARY("Round", IsInteger(n.dtype(0)) ? n.Op("Identity", {x}) : n.Op("Round", {x}));
RIVULET_UNARY("Square", n.Op("Mul", {x, x}));
RIVULET_UNARY("Rsqrt", n.Op("Reciprocal", {n.Op("Sqrt", {x})}));
RIVULET_UNARY("Log1p", n.Op("Log", {n.Op("Add", {x, n.Scalar(n.dtype(0), 1)})}));
RIVULET_UNARY("Expm1", n.Op("Sub", {n.Op("Exp", {x}), n.Scalar(n.dtype(0), 1)}));
RIVULET_UNARY("Erfc", n.Op("Sub", {n.Scalar(n.dtype(0), 1), n.Op("Erf", {x})}));
RIVULET_UNARY("IsFinite", n.Op("Not", {n.Op("Or", {n.Op("IsNaN", {x}), n.Op("IsInf", {x})})}));

RIVULET_ONNX_EXPORT("Cast", [](ExportContext& n) {
  return Elementwise(n, [&](const Value& x) { return n.Cast(x, n.attr<DType>("DstT")); });
});

#define RIVULET_SAME_BINARY(op, onnx)                                                              \
  RIVULET_ONNX_EXPORT(op, [](ExportContext& n) {                                                   \
    return ElementwisePair(n, [&](const Value& x, const Value& y) { return n.Op(onnx, {x, y}); }); \
  })

RIVULET_SAME_BINARY("Add", "Add");
RIVULET_SAME_BINARY("AddV2", "Add");
RIVULET_SAME_BINARY("Sub", "Sub");
RIVULET_SAME_BINARY("Mul", "Mul");
RIVULET_SAME_BINARY("Div", "Div");
RIVULET_SAME_BINARY("RealDiv", "Div");
RIVULET_SAME_BINARY("Pow", "Pow");
RIVULET_SAME_BINARY("Maximum", "Max");
RIVULET_SAME_BINARY("Minimum", "Min");
RIVULET_SAME_BINARY("Equal", "Equal");
RIVULET_SAME_BINARY("Less", "Less");
RIVULET_SAME_BINARY("LessEqual", "LessOrEqual");
RIVULET_SAME_BINARY("Greater", "Greater");
RIVULET_SAME_BINARY("GreaterEqual", "GreaterOrEqual");
RIVULET_SAME_BINARY("LogicalAnd", "And");
RIVULET_SAME_BINARY("LogicalOr", "Or");
RIVULET_SAME_BINARY("BitwiseAnd", "BitwiseAnd");
RIVULET_SAME_BINARY("BitwiseOr", "BitwiseOr");
RIVULET_SAME_BINARY("BitwiseXor", "BitwiseXor");

#define RIVULET_BINARY(op, expression)                                                     \
  RIVULET_ONNX_EXPORT(op, [](ExportContext& n) {                                           \
    return ElementwisePair(n, [&](const Value& x, const Value& y) { return expression; }); \
  })

RIVULET_BINARY("NotEqual", n.Op("Not", {n.Op("Equal", {x, y})}));

Value SquaredDifference(const ExportContext& n, const Value& x, const Value& y) {
  const Value difference = n.Op("Sub", {x, y});
  return n.Op("Mul", {difference, difference});
}
RIVULET_BINARY("SquaredDifference", SquaredDifference(n, x, y));

Value DivNoNan(const ExportContext& n, const Value& x, const Value& y) {
  const Value zero = n.Scalar(n.dtype(0), 0);
  return n.Op("Where", {n.Op("Equal", {y, zero}), zero, n.Op("Div", {x, y})});
}
RIVULET_BINARY("DivNoNan", DivNoNan(n, x, y));

// The rest of division towards zero. With fmod runtimes take integers through floating point.
Value TruncateMod(const ExportContext& n, const Value& x, const Value& y) {
  if (IsInteger(n.dtype(0))) return n.Op("Sub", {x, n.Op("Mul", {n.Op("Div", {x, y}), y})});
  return n.Op("Mod", {x, y}, {{"fmod", true}});
}

// Towards minus infinity. ONNX's Mod of integers has the divisor's sign: where it is not the rest of Div, which goes
// towards zero, Div gives one too much.
Value FloorDiv(const ExportContext& n, const Value& x, const Value& y) {
  if (IsInteger(n.dtype(0))) {
    const Value quotient = n.Op("Div", {x, y});
    const Value same = n.Op("Equal", {n.Op("Mod", {x, y}), TruncateMod(n, x, y)});
    return n.Op("Sub", {quotient, n.Cast(n.Op("Not", {same}), n.dtype(0))});
  }
  return n.Op("Floor", {n.Op("Div", {x, y})});
}
RIVULET_BINARY("FloorDiv", FloorDiv(n, x, y));

Value FloorMod(const ExportContext& n, const Value& x, const Value& y) {
  if (IsInteger(n.dtype(0))) return n.Op("Mod", {x, y});
  const Value rest = TruncateMod(n, x, y), zero = n.Scalar(n.dtype(0), 0);
  const Value opposite = n.Op("Less", {n.Op("Mul", {rest, n.Op("Sign", {y})}), zero});
  return n.Op("Where", {opposite, n.Op("Add", {rest, y}), rest});
}
RIVULET_BINARY("FloorMod", FloorMod(n, x, y));
RIVULET_BINARY("TruncateMod", TruncateMod(n, x, y));
RIVULET_BINARY("Mod", TruncateMod(n, x, y));

Value TruncateDiv(const ExportContext& n, const Value& x, const Value& y) {
  const Value quotient = n.Op("Div", {x, y});
  if (IsInteger(n.dtype(0))) return quotient;
  const Value zero = n.Scalar(n.dtype(0), 0);
  return n.Op("Where", {n.Op("Less", {quotient, zero}), n.Op("Ceil", {quotient}), n.Op("Floor", {quotient})});
}
RIVULET_BINARY("TruncateDiv", TruncateDiv(n, x, y));

Value ApproximateEqual(const ExportContext& n, const Value& x, const Value& y) {
  const Value tolerance = n.Scalar(n.dtype(0), n.attr<float>("tolerance"));
  return n.Op("Less", {n.Op("Abs", {n.Op("Sub", {x, y})}), tolerance});
}
RIVULET_BINARY("ApproximateEqual", ApproximateEqual(n, x, y));

// Of unsigned integers, as ONNX has it. More bits than there are shift everything out.
Status Shift(ExportContext& n, const char* direction) {
  if (n.dtype(0) != DType::kUint8 && n.dtype(0) != DType::kUint16 && n.dtype(0) != DType::kUint32 &&
      n.dtype(0) != DType::kUint64)
    return Unimplemented("a shift of {}; ONNX shifts unsigned integers only", Name(n.dtype(0)));
  return ElementwisePair(n, [&](const Value& x, const Value& y) {
    return n.Op("BitShift", {x, y}, {{"direction", std::string(direction)}});
  });
}
RIVULET_ONNX_EXPORT("LeftShift", [](ExportContext& n) { return Shift(n, "LEFT"); });
RIVULET_ONNX_EXPORT("RightShift", [](ExportContext& n) { return Shift(n, "RIGHT"); });

// 0 where x is 0, whatever y is.
Value ZeroAware(const ExportContext& n, const Value& x, const Value& product) {
  const Value zero = n.Scalar(n.dtype(0), 0);
  return n.Op("Where", {n.Op("Equal", {x, zero}), zero, product});
}
RIVULET_BINARY("Xlogy", ZeroAware(n, x, n.Op("Mul", {x, n.Op("Log", {y})})));
RIVULET_BINARY("MulNoNan", ZeroAware(n, y, n.Op("Mul", {x, y})));
RIVULET_BINARY("Xdivy", ZeroAware(n, x, n.Op("Div", {x, y})));
RIVULET_BINARY("Xlog1py", ZeroAware(n, x, n.Op("Mul", {x, n.Op("Log", {n.Op("Add", {y, n.Scalar(n.dtype(0), 1)})})})));

RIVULET_ONNX_EXPORT("ClipByValue", [](ExportContext& n) {
  if (n.shape(1).known_rank() && n.shape(1).rank() == 0 && n.shape(2).known_rank() && n.shape(2).rank() == 0)
    return Elementwise(n, [&](const Value& x) { return n.Op("Clip", {x, n.input(1), n.input(2)}); });
  n.set_output(0, n.Op("Min", {n.Op("Max", {n.input(0), n.input(1)}), n.input(2)}));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("AddN", [](ExportContext& n) {
  bool first = true;
  for (int i = 0; i < n.num_inputs(); ++i) first = first && n.lies_channels_first(i);
  if (!first) {
    n.set_output(0, n.Op("Sum", n.inputs()));
    return absl::OkStatus();
  }
  std::vector<Value> values;
  for (int i = 0; i < n.num_inputs(); ++i) values.push_back(n.channels_first(i));
  n.set_output_channels_first(0, n.Op("Sum", std::move(values)));
  return absl::OkStatus();
});

Status Select(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(1));
  RIVULET_ASSIGN_OR_RETURN(const int condition_rank, n.Rank(0));
  Value condition = n.input(0);
  if (n.type() == "Select" && condition_rank == 1 && rank > 1) {  // one for each row
    std::vector<int64_t> axes;
    for (int axis = 1; axis < rank; ++axis) axes.push_back(axis);
    condition = n.Unsqueeze(condition, axes);
  }
  n.set_output(0, n.Op("Where", {condition, n.input(1), n.input(2)}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Select", Select);
RIVULET_ONNX_EXPORT("SelectV2", Select);

Status L2Loss(ExportContext& n) {
  n.set_output(0,
               n.Op("Mul", {n.Op("ReduceSumSquare", {n.input(0)}, {{"keepdims", false}}), n.Scalar(n.dtype(0), 0.5)}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("L2Loss", L2Loss);

}  // namespace
}  // namespace rivulet::onnx
