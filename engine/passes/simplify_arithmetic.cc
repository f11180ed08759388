// Simplifies arithmetic without changing a bit of a finite number. Not simplified: x + 0, which changes -0 to +0,
// unless x cannot be -0. A reduction of single elements passes them on unchanged.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/passes/constant_values.h"
#include "engine/passes/pass.h"

namespace rivulet {
namespace {

bool IsInteger(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// Whether no element of `x` can be -0.
bool NeverMinusZero(Edge x) {
  if (IsInteger(x.dtype())) return true;
  const std::string_view op = x.node->type();
  return !x.node->fed && (op == "Exp" || op == "Sigmoid" || op == "Softmax" || op == "Abs" || op == "Square");
}

// 1 / c if dividing by c and multiplying by it give the
// same bits: c is a power of two, and neither is denormal.
template <typename T>
std::optional<T> ExactReciprocal(double c) {
  int exponent = 0;
  if (!std::isfinite(c) || c == 0 || std::abs(std::frexp(c, &exponent)) != 0.5) return std::nullopt;
  const T reciprocal = static_cast<T>(1 / c);
  if (!std::isnormal(reciprocal) || !std::isnormal(static_cast<T>(c))) return std::nullopt;
  return reciprocal;
}

class ArithmeticSimplifier {
 public:
  ArithmeticSimplifier(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Visit(EditNode& node) {
    if (node.fed || node.outputs.size() != 1 || node.inputs.empty()) return;
    const std::string_view op = node.type();
    if (op == "Mul") {
      if (!TakeOutNeutral(node, 0, 1)) TakeOutNeutral(node, 1, 1);
    } else if (op == "AddV2" || op == "Add") {
      if (!TakeOutZero(node, 0)) TakeOutZero(node, 1);
    } else if (op == "Sub") {
      // x - (+0) is x, and x - (-0) is x + 0.
      if (const auto zero = Splat(node.inputs[1]);
          zero && *zero == 0 && (!std::signbit(*zero) || NeverMinusZero(node.inputs[0]))) {
        Replace(node, 0, "subtracts zero");
      }
    } else if (op == "RealDiv" || op == "Div") {
      if (!TakeOutNeutral(node, 1, 1)) DivideByPowerOfTwo(node);
    } else if (op == "Neg" || op == "LogicalNot") {
      const Edge in = node.inputs[0];
      if (in.node->type() == op && !in.node->fed) ReplaceBy(node, in.node->inputs[0], "undoes another");
    } else if (op == "Relu" || op == "Abs" || op == "Relu6") {
      const Edge in = node.inputs[0];
      if (in.node->type() == op && !in.node->fed) ReplaceBy(node, in, "has been done");
    } else if (op == "Max" || op == "Min" || op == "Prod" || op == "Sum" || op == "Mean" || op == "All" ||
               op == "Any") {
      TakeOutReduction(node);
    } else if (op == "AddN" && node.inputs.size() == 1) {
      ReplaceBy(node, node.inputs[0], "has one addend");
    }
  }

 private:
  bool ReplaceBy(EditNode& node, Edge edge, std::string_view why) {
    if (edge.spec() != node.outputs[0]) return false;
    const std::string line = fmt::format("{}: this {} {}", node.name, node.type(), why);
    if (!graph_.Replace(node, edge)) return false;
    context_.log.push_back(line);
    return true;
  }
  bool Replace(EditNode& node, size_t input, std::string_view why) { return ReplaceBy(node, node.inputs[input], why); }

  // All elements of `input` are `neutral`.
  bool TakeOutNeutral(EditNode& node, size_t input, double neutral) {
    const auto value = Splat(node.inputs[input]);
    return value && *value == neutral && Replace(node, 1 - input, fmt::format("by {} changes nothing", neutral));
  }

  bool TakeOutZero(EditNode& node, size_t input) {
    const auto value = Splat(node.inputs[input]);
    if (!value || *value != 0) return false;
    const bool integer = IsInteger(node.outputs[0].dtype);
    if (!integer && !std::signbit(*value) && !NeverMinusZero(node.inputs[1 - input])) return false;
    return Replace(node, 1 - input, "adds zero");
  }

  void DivideByPowerOfTwo(EditNode& node) {
    const DType dtype = node.outputs[0].dtype;
    const auto divisor = Splat(node.inputs[1]);
    if (!divisor) return;
    const Shape& shape = node.inputs[1].shape();
    Tensor reciprocal;
    if (dtype == DType::kFloat32) {
      const auto exact = ExactReciprocal<float>(*divisor);
      if (!exact) return;
      reciprocal = Tensor(dtype, shape);
      std::ranges::fill(reciprocal.flat<float>(), *exact);
    } else if (dtype == DType::kFloat64) {
      const auto exact = ExactReciprocal<double>(*divisor);
      if (!exact) return;
      reciprocal = Tensor(dtype, shape);
      std::ranges::fill(reciprocal.flat<double>(), *exact);
    } else {
      return;
    }
    context_.log.push_back(fmt::format("{}: the division by {} becomes a product", node.name, *divisor));
    const Edge factor = graph_.AddConst(node.name + "/reciprocal", std::move(reciprocal), node)->output();
    graph_.Become(node, "Mul", {node.inputs[0], factor}, {{"T", dtype}});
  }

  // Removes a reduction over no axes, or over axes of size one. The gradient of each product of two tensors of unknown
  // batch size has one for either factor: the reduced axes are known only when sizes are.
  void TakeOutReduction(EditNode& node) {
    const Edge in = node.inputs[0];
    const int64_t elements = in.shape().elements();
    if (elements == 0 || elements != node.outputs[0].shape.elements()) return;
    if (in.spec() == node.outputs[0]) {
      ReplaceBy(node, in, "reduces nothing");
      return;
    }
    Tensor dims(DType::kInt64, Shape{node.outputs[0].shape.rank()});
    std::ranges::copy(node.outputs[0].shape.dims(), dims.flat<int64_t>().begin());
    context_.log.push_back(fmt::format("{}: this {} over axes of size one becomes a reshape", node.name, node.type()));
    const Edge shape = graph_.AddConst(node.name + "/shape", std::move(dims), node)->output();
    graph_.Become(node, "Reshape", {in, shape}, {{"T", in.dtype()}, {"Tshape", DType::kInt64}});
  }

  GraphEditor& graph_;
  PassContext& context_;
};

}  // namespace

Status SimplifyArithmetic(GraphEditor& graph, PassContext& context) {
  ArithmeticSimplifier simplifier(graph, context);
  for (EditNode* node : graph.Nodes())
    if (!node->removed) simplifier.Visit(*node);
  return absl::OkStatus();
}

}  // namespace rivulet
