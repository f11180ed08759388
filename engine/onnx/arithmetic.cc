// Element by element: arithmetic, comparison, logic, and the functions of mathematics.
#include <array>
#include <cmath>
#include <limits>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// Before opset 7, B was broadcast to A only where the node said so, and from an axis of A on that it named.
std::vector<Output> Operands(NodeContext& n) {
  const Output a = n.input(0);
  Output b = n.input(1);
  if (n.opset() < 7 && n.Flag("broadcast", false) && n.has_attr("axis") && a && b) {
    const int rank = ShapeOf(a).rank(), own = ShapeOf(b).rank();
    const auto axis = n.Axis(n.Int("axis", 0), std::max(rank, 1));
    if (!axis.ok()) {
      n.b().Fail(axis.status());
      return {};
    }
    std::vector<Output> dims;
    for (int i = 0; i < own; ++i) dims.push_back(n.b().Dim(b, i));
    for (int i = *axis + own; i < rank; ++i) dims.push_back(n.b().Int(1));
    b = n.b().Shaped(b, dims);
  }
  return {a, b};
}

Status Binary(NodeContext& n, std::string_view op) {
  n.set_output(0, n.b().Op(op, Operands(n)));
  return n.status();
}
Status Unary(NodeContext& n, std::string_view op) {
  n.set_output(0, n.b().Op(op, {n.input(0)}));
  return n.status();
}

// Registers an operator that is one op of ours.
#define RIVULET_ONNX_BINARY(name, op) RIVULET_ONNX(name, [](NodeContext& n) { return Binary(n, op); })
#define RIVULET_ONNX_UNARY(name, op) RIVULET_ONNX(name, [](NodeContext& n) { return Unary(n, op); })

RIVULET_ONNX_BINARY("Add", "AddV2");
RIVULET_ONNX_BINARY("Sub", "Sub");
RIVULET_ONNX_BINARY("Mul", "Mul");

Status Div(NodeContext& n) {
  const std::vector<Output> operands = Operands(n);
  if (!n.status().ok()) return n.status();
  n.set_output(0, n.b().Div(operands[0], operands[1]));
  return n.status();
}
RIVULET_ONNX("Div", Div);

// Base and exponent may differ in type; the result has the base's. An integer to a power that is none goes through
// float64 and is rounded as NumPy rounds it: towards zero, after what float64 itself rounded is mended.
Status Pow(NodeContext& n) {
  const std::vector<Output> operands = Operands(n);
  if (!n.status().ok()) return n.status();
  const Builder& b = n.b();
  const Output x = operands[0], y = operands[1];
  if (IsFloating(TypeOf(x))) {
    n.set_output(0, b.Op("Pow", {x, b.Cast(y, TypeOf(x))}));
    return n.status();
  }
  if (!IsFloating(TypeOf(y))) {
    n.set_output(0, b.Op("Pow", {x, b.Cast(y, TypeOf(x))}));
    return n.status();
  }
  const Output power = b.Op("Pow", {b.Cast(x, DType::kFloat64), b.Cast(y, DType::kFloat64)});
  const Output mended = b.Add(power, b.Mul(b.Scalar(DType::kFloat64, 0x1p-48), power));
  n.set_output(0, b.Cast(mended, TypeOf(x)));
  return n.status();
}
RIVULET_ONNX("Pow", Pow);

Output Truncated(const Builder& b, Output x) { return b.Mul(b.Op("Sign", {x}), b.Op("Floor", {b.Op("Abs", {x})})); }

// fmod = 0: the sign of the divisor, as Python; fmod = 1: of the dividend, as C.
Status Mod(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), y = n.input(1);
  if (!n.status().ok()) return n.status();
  const bool floating = IsFloating(TypeOf(x));
  if (!n.Flag("fmod", false)) {
    Output rest = Builder::Has("FloorMod") ? b.Op("FloorMod", {x, y}) : b.Sub(x, b.Mul(b.Op("FloorDiv", {x, y}), y));
    // A rest of zero has the divisor's sign too, which TensorFlow's op does not give it.
    if (floating) rest = b.Select(b.Equal(rest, b.ScalarLike(rest, 0)), b.Times(b.Op("Sign", {y}), 0), rest);
    n.set_output(0, rest);
  } else if (floating && Builder::Has("TruncateMod")) {
    n.set_output(0, b.Op("TruncateMod", {x, y}));
  } else {
    const Output quotient = floating ? Truncated(b, b.Div(x, y)) : b.Div(x, y);
    n.set_output(0, b.Sub(x, b.Mul(quotient, y)));
  }
  return n.status();
}
RIVULET_ONNX("Mod", Mod);

RIVULET_ONNX_UNARY("Neg", "Neg");
RIVULET_ONNX_UNARY("Abs", "Abs");
RIVULET_ONNX_UNARY("Sign", "Sign");
RIVULET_ONNX_UNARY("Floor", "Floor");
RIVULET_ONNX_UNARY("Ceil", "Ceil");
RIVULET_ONNX_UNARY("Round", "Rint");
RIVULET_ONNX_UNARY("Sqrt", "Sqrt");
RIVULET_ONNX_UNARY("Exp", "Exp");
RIVULET_ONNX_UNARY("Log", "Log");
RIVULET_ONNX_UNARY("Erf", "Erf");
RIVULET_ONNX_UNARY("Sin", "Sin");
RIVULET_ONNX_UNARY("Cos", "Cos");
RIVULET_ONNX_UNARY("Tan", "Tan");
RIVULET_ONNX_UNARY("Asin", "Asin");
RIVULET_ONNX_UNARY("Acos", "Acos");
RIVULET_ONNX_UNARY("Atan", "Atan");
RIVULET_ONNX_UNARY("Sinh", "Sinh");
RIVULET_ONNX_UNARY("Cosh", "Cosh");
RIVULET_ONNX_UNARY("Asinh", "Asinh");
RIVULET_ONNX_UNARY("Acosh", "Acosh");
RIVULET_ONNX_UNARY("Atanh", "Atanh");
RIVULET_ONNX_UNARY("Tanh", "Tanh");
RIVULET_ONNX_UNARY("Not", "LogicalNot");
RIVULET_ONNX_UNARY("BitwiseNot", "Invert");

Status Reciprocal(NodeContext& n) {
  n.set_output(0, n.b().Div(n.b().ScalarLike(n.input(0), 1), n.input(0)));
  return n.status();
}
RIVULET_ONNX("Reciprocal", Reciprocal);

RIVULET_ONNX_UNARY("IsNaN", "IsNan");

Status IsInf(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool negative = n.Flag("detect_negative", true), positive = n.Flag("detect_positive", true);
  const Output up = b.Equal(x, b.ScalarLike(x, positive ? infinity : -infinity));
  const Output down = b.Equal(x, b.ScalarLike(x, negative ? -infinity : infinity));
  Output found = b.Op("LogicalOr", {up, down});
  if (!negative && !positive) found = b.Op("ZerosLike", {found});
  n.set_output(0, found);
  return n.status();
}
RIVULET_ONNX("IsInf", IsInf);

RIVULET_ONNX_BINARY("Equal", "Equal");
RIVULET_ONNX_BINARY("Less", "Less");
RIVULET_ONNX_BINARY("LessOrEqual", "LessEqual");
RIVULET_ONNX_BINARY("Greater", "Greater");
RIVULET_ONNX_BINARY("GreaterOrEqual", "GreaterEqual");
RIVULET_ONNX_BINARY("And", "LogicalAnd");
RIVULET_ONNX_BINARY("Or", "LogicalOr");
RIVULET_ONNX_BINARY("Xor", "NotEqual");
RIVULET_ONNX_BINARY("BitwiseAnd", "BitwiseAnd");
RIVULET_ONNX_BINARY("BitwiseOr", "BitwiseOr");
RIVULET_ONNX_BINARY("BitwiseXor", "BitwiseXor");

// A shift that is negative or not below the type's width leaves nothing but the sign.
Status BitShift(NodeContext& n) {
  const Builder& b = n.b();
  const std::string direction = n.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return n.Fail(InvalidArgument("the direction '{}' is neither LEFT nor RIGHT", direction));
  const Output x = n.input(0), shift = n.input(1);
  const double width = 8.0 * static_cast<double>(SizeOf(TypeOf(x)));
  const Output within = b.Op(
      "LogicalAnd", {b.Op("GreaterEqual", {shift, b.ScalarLike(shift, 0)}), b.Less(shift, b.ScalarLike(shift, width))});
  const Output bounded = b.Select(within, shift, b.ScalarLike(shift, width - 1));
  n.set_output(0, direction == "RIGHT" ? b.Op("RightShift", {x, bounded})
                                       : b.Select(within, b.Op("LeftShift", {x, bounded}), b.ScalarLike(x, 0)));
  return n.status();
}
RIVULET_ONNX("BitShift", BitShift);

Status Where(NodeContext& n) {
  n.set_output(0, n.b().Select(n.input(0), n.input(1), n.input(2)));
  return n.status();
}
RIVULET_ONNX("Where", Where);

// Any number of operands, at least one, broadcast together.
StatusOr<Output> Folded(NodeContext& n, std::string_view op) {
  Output all = n.input(0);
  for (int i = 1; i < n.num_inputs(); ++i) all = n.b().Op(op, {all, n.input(i)});
  if (!n.status().ok()) return n.status();
  return all;
}
Status Variadic(NodeContext& n, std::string_view op) {
  RIVULET_ASSIGN_OR_RETURN(const Output all, Folded(n, op));
  n.set_output(0, n.num_inputs() == 1 ? n.b().Op("Identity", {all}) : all);
  return n.status();
}
RIVULET_ONNX("Max", [](NodeContext& n) { return Variadic(n, "Maximum"); });
RIVULET_ONNX("Min", [](NodeContext& n) { return Variadic(n, "Minimum"); });
RIVULET_ONNX("Sum", [](NodeContext& n) { return Variadic(n, "AddV2"); });

Status Mean(NodeContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const Output sum, Folded(n, "AddV2"));
  n.set_output(0, n.b().Div(sum, n.b().ScalarLike(sum, n.num_inputs())));
  return n.status();
}
RIVULET_ONNX("Mean", Mean);

// Where min is above max, every element is max. Attributes until opset 10, inputs since.
Status Clip(NodeContext& n) {
  const Builder& b = n.b();
  Output y = n.input(0), low, high;
  if (n.opset() < 11) {
    if (n.has_attr("min")) low = b.ScalarLike(y, n.Float("min", 0));
    if (n.has_attr("max")) high = b.ScalarLike(y, n.Float("max", 0));
  } else {
    low = n.optional_input(1);
    high = n.optional_input(2);
  }
  if (low) y = b.Maximum(y, low);
  if (high) y = b.Minimum(y, high);
  n.set_output(0, low || high ? y : b.Op("Identity", {y}));
  return n.status();
}
RIVULET_ONNX("Clip", Clip);

}  // namespace
}  // namespace rivulet::onnx
