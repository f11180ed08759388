// Matrix products, and biases.
#include <algorithm>

#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

constexpr char kStoredTransposed[] = "_onnx_perm";  // of a VarHandleOp: how the model that it came from has it

// Whether input i is a variable that came from a model which has it transposed: it goes back so.
bool CameTransposed(const ExportContext& n, int i) {
  const Node* node = n.node().input(i).node;
  while (node->type() == "Identity" || node->type() == "ReadVariableOp") node = node->input(0).node;
  const auto* perm = node->FindAttr<std::vector<int64_t>>(kStoredTransposed);
  return perm != nullptr && *perm == std::vector<int64_t>{1, 0};
}

Value Activated(const ExportContext& n, Value x, const std::string& activation) {
  if (activation == "Relu") return n.Op("Relu", {x});
  if (activation == "Relu6") return n.Op("Clip", {x, n.Scalar(n.dtype(0), 0), n.Scalar(n.dtype(0), 6)});
  if (activation == "Tanh" || activation == "Sigmoid" || activation == "Elu") return n.Op(activation, {x});
  return "";
}

// Of two matrices; Gemm where one is transposed.
Value Product(const ExportContext& n, const Value& bias) {
  const bool a = n.attr<bool>("transpose_a");
  bool b = n.attr<bool>("transpose_b");
  Value left = n.input(0), right;
  if (!b && CameTransposed(n, 1)) {
    right = n.Arranged(1, {1, 0});
    b = true;
  } else {
    right = n.input(1);
  }
  if (!a && !b && bias.empty()) return n.Op("MatMul", {left, right});
  const bool floating = IsFloating(n.dtype(0));
  if (floating) return n.Op("Gemm", {left, right, bias}, {{"transA", a}, {"transB", b}});
  if (a) left = n.Transpose(left, {1, 0});
  if (b) right = n.Transpose(right, {1, 0});
  const Value product = n.Op("MatMul", {left, right});
  return bias.empty() ? product : n.Op("Add", {product, bias});
}

RIVULET_ONNX_EXPORT("MatMul", [](ExportContext& n) {
  n.set_output(0, Product(n, ""));
  return absl::OkStatus();
});

RIVULET_ONNX_EXPORT("_FusedMatMul", [](ExportContext& n) -> Status {
  const auto& fused = n.attr<std::vector<std::string>>("fused_ops");
  const bool bias = !fused.empty() && fused[0] == "BiasAdd";
  Value y = Product(n, bias ? n.input(2) : Value());
  for (size_t i = bias ? 1 : 0; i < fused.size(); ++i) {
    if (fused[i] == "LeakyRelu")
      y = n.Op("LeakyRelu", {y}, {{"alpha", n.attr<float>("leakyrelu_alpha")}});
    else
      y = Activated(n, y, fused[i]);
    if (y.empty()) return Unimplemented("fused_ops with {}", fused[i]);
  }
  n.set_output(0, y);
  return absl::OkStatus();
});

Status BatchMatMul(ExportContext& n) {
  const auto adjoint = [&](int i, bool transposed) -> StatusOr<Value> {
    if (!transposed) return n.input(i);
    RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(i));
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    for (int axis = 0; axis < rank; ++axis) perm[static_cast<size_t>(axis)] = axis;
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return n.Arranged(i, perm);
  };
  RIVULET_ASSIGN_OR_RETURN(const Value x, adjoint(0, n.attr<bool>("adj_x")));
  RIVULET_ASSIGN_OR_RETURN(const Value y, adjoint(1, n.attr<bool>("adj_y")));
  n.set_output(0, n.Op("MatMul", {x, y}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("BatchMatMul", BatchMatMul);
RIVULET_ONNX_EXPORT("BatchMatMulV2", BatchMatMul);

// ONNX names each index of the result once, and its ellipses stand for equally many axes.
Status Einsum(ExportContext& n) {
  const std::string equation = n.attr<std::string>("equation");
  const std::string result = equation.substr(std::min(equation.size(), equation.find("->")));
  for (size_t i = 2; i < result.size(); ++i)
    if (result[i] != '.' && result.find(result[i], i + 1) != std::string::npos)
      return Unimplemented("the equation '{}', which names an index of the result twice", equation);
  if (equation.find("...") != std::string::npos)
    for (int i = 1; i < n.num_inputs(); ++i)
      if (n.shape(i).rank() != n.shape(0).rank())
        return Unimplemented("the equation '{}' with an ellipsis for operands of different ranks", equation);
  n.set_output(0, n.Op("Einsum", n.inputs(), {{"equation", equation}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Einsum", Einsum);

Status BiasAdd(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> axes;  // behind the channels
  for (int axis = 2; axis < rank; ++axis) axes.push_back(axis - 1);
  const Value bias = n.input(1);
  if (n.AddBias(0, bias)) {
    n.Forward(0, 0);
  } else if (n.attr<std::string>("data_format") == "NCHW") {
    n.set_output(0, n.Op("Add", {n.input(0), n.Unsqueeze(bias, axes)}));
  } else if (n.lies_channels_first(0)) {
    n.set_output_channels_first(0, n.Op("Add", {n.channels_first(0), n.Unsqueeze(bias, axes)}));
  } else {
    n.set_output(0, n.Op("Add", {n.input(0), bias}));
  }
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("BiasAdd", BiasAdd);

}  // namespace
}  // namespace rivulet::onnx
