#include "federated/local_rules/rule_nodes.h"

#include <utility>

#include "federated/local_rules/rule_names.h"

namespace rivulet {
namespace {

using Given = std::span<const RuleValue>;

constexpr RuleFunction kFunctions[] = {
    {.name = "abs",
     .call = "abs(x)",
     .doc = "its size, without the sign",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Abs", x[0]); }},
    {.name = "dot",
     .call = "dot(v, w)",
     .doc = "a number: sum(v * w)",
     .arguments = 2,
     .of_vectors = true,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Sum(nodes.Both("Mul", x[0], x[1])); }},
    {.name = "exp",
     .call = "exp(x)",
     .doc = "e to the power of x",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Exp", x[0]); }},
    {.name = "log",
     .call = "log(x)",
     .doc = "the natural logarithm",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Log", x[0]); }},
    {.name = "max",
     .call = "max(x, y)",
     .doc = "the larger of two, element by element",
     .arguments = 2,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Both("Maximum", x[0], x[1]); }},
    {.name = "min",
     .call = "min(x, y)",
     .doc = "the smaller of two, element by element",
     .arguments = 2,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Both("Minimum", x[0], x[1]); }},
    {.name = "norm",
     .call = "norm(v)",
     .doc = "a number: sqrt(sum(v ^ 2))",
     .of_vectors = true,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Sqrt", nodes.Sum(nodes.Each("Square", x[0]))); }},
    {.name = "sign",
     .call = "sign(x)",
     .doc = "-1, 0 or 1",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Sign", x[0]); }},
    {.name = "sqrt",
     .call = "sqrt(x)",
     .doc = "the square root",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Sqrt", x[0]); }},
    {.name = "sum",
     .call = "sum(v)",
     .doc = "a number: of all elements",
     .of_vectors = true,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Sum(x[0]); }},
    {.name = "tanh",
     .call = "tanh(x)",
     .doc = "the hyperbolic tangent",
     .make = [](RuleNodes& nodes, Given x) { return nodes.Each("Tanh", x[0]); }},
    {.name = "where",
     .call = "where(x < y, a, b)",
     .doc = "a where the comparison holds, else b, element by element",
     .arguments = 3,
     .of_truth = true,
     .make = [](RuleNodes& nodes, Given x) { return nodes.Where(x[0], x[1], x[2]); }},
};

}  // namespace

std::span<const RuleFunction> RuleFunctions() { return kFunctions; }

RuleValue RuleNodes::Number(double value) const { return {scope_.Const(Tensor::Scalar(value), "number")}; }

RuleValue RuleNodes::Setting(std::string_view name, double value) const {
  return {scope_.Const(Tensor::Scalar(value), fmt::format("{}{}", kSettingPrefix, name))};
}

RuleValue RuleNodes::Rate() {
  if (!rate_) rate_ = scope_.Placeholder(kRateInput, DType::kFloat64, {});
  return {rate_};
}

RuleValue RuleNodes::Vector(const std::string& flat) { return {Read(flat, true), true}; }
RuleValue RuleNodes::Scalar(const std::string& flat) { return {Read(flat, false)}; }

RuleValue RuleNodes::Each(std::string_view op, const RuleValue& x) const {
  return {scope_.Op(op, {x.output}), x.vector};
}

Output RuleNodes::Beside(const RuleValue& value, bool vector) const {
  if (value.vector || !vector) return value.output;
  return scope_.Op("Cast", {value.output}, {{"DstT", DType::kFloat32}});
}

RuleValue RuleNodes::Both(std::string_view op, const RuleValue& x, const RuleValue& y) const {
  const bool vector = x.vector || y.vector;
  return {scope_.Op(op, {Beside(x, vector), Beside(y, vector)}), vector};
}

// As FlatScope::Scale.
RuleValue RuleNodes::Product(const RuleValue& x, const RuleValue& y) const {
  return !x.vector && y.vector ? Both("Mul", y, x) : Both("Mul", x, y);
}

// As FlatScope::Over.
RuleValue RuleNodes::Quotient(const RuleValue& x, const RuleValue& y) const {
  if (!x.vector || y.vector) return Both("RealDiv", x, y);
  return Both("Mul", x, Both("RealDiv", Number(1), y));
}

RuleValue RuleNodes::Where(const RuleValue& truth, const RuleValue& x, const RuleValue& y) const {
  const bool vector = truth.vector || x.vector || y.vector;
  return {scope_.Op("SelectV2", {truth.output, Beside(x, vector), Beside(y, vector)}), vector};
}

RuleValue RuleNodes::Sum(const RuleValue& x) const {
  const Output all = scope_.Op("Sum", {x.output, scope_.Const(Tensor::Of<int32_t>({1}, {0}), "axis")});
  return {scope_.Op("Cast", {all}, {{"DstT", DType::kFloat64}})};
}

void RuleNodes::Assign(const std::string& flat, const RuleValue& value, bool at_end) {
  assigned_[at_end ? 1 : 0].push_back(
      scope_.AddNode("AssignVariableOp", {Handle(flat, true), value.output}, {{"dtype", DType::kFloat32}}));
}

StatusOr<Graph> RuleNodes::Finish(const RuleValue& gradient, const RuleValue& loss) && {
  if (gradient.output) scope_.Op("Identity", {gradient.output}, {}, kGradientOutput);
  if (loss.output) scope_.Op("Identity", {loss.output}, {}, kLossOutput);
  if (!assigned_[0].empty()) scope_.WithControl(assigned_[0]).AddNode("NoOp", {}, {}, kStepTarget);
  if (!assigned_[1].empty()) scope_.WithControl(assigned_[1]).AddNode("NoOp", {}, {}, kEndTarget);
  RIVULET_RETURN_IF_ERROR(scope_.status());
  return std::move(graph_);
}

Output RuleNodes::Handle(const std::string& flat, bool vector) {
  Output& handle = handles_[flat];
  const DType dtype = vector ? DType::kFloat32 : DType::kFloat64;
  const Shape shape = vector ? Shape{kUnknownDim} : Shape{};
  if (!handle) {
    handle = scope_.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", flat}}, flat);
  }
  return handle;
}

Output RuleNodes::Read(const std::string& flat, bool vector) {
  Output& read = reads_[flat];
  if (!read) {
    const DType dtype = vector ? DType::kFloat32 : DType::kFloat64;
    read = scope_.Op("ReadVariableOp", {Handle(flat, vector)}, {{"dtype", dtype}});
  }
  return read;
}

}  // namespace rivulet
