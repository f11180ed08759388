// Matrix products.
#include <algorithm>
#include <map>
#include <set>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// As NumPy's matmul: a vector on the left is a row, on the right a column, and its axis disappears again.
Status MatMul(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0), y = n.input(1);
  RIVULET_ASSIGN_OR_RETURN(const int left, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int right, n.Rank(1));
  if (left < 1 || right < 1) return InvalidArgument("a scalar operand");
  if (left == 1) x = b.ExpandDims(x, 0);
  if (right == 1) y = b.ExpandDims(y, 1);
  Output product = b.MatMul(x, y);
  const int rank = std::max({left, right, 2});
  if (right == 1) product = b.Squeeze(product, rank - 1);
  if (left == 1) product = b.Squeeze(product, rank - 2);
  n.set_output(0, product);
  return n.status();
}
RIVULET_ONNX("MatMul", MatMul);

// alpha A' B' + beta C.
Status Gemm(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const double alpha = n.Float("alpha", 1), beta = n.Float("beta", 1);
  // A weight that the graph stores as [in, out] is taken as it is; anything else the product transposes.
  const bool transposed = n.Flag("transB", false), stored = transposed && n.IsStored(1);
  const Output y = stored ? n.Transposed(1, {1, 0}) : n.input(1);
  Output product =
      b.Op("MatMul", {x, y}, {{"transpose_a", n.Flag("transA", false)}, {"transpose_b", transposed && !stored}});
  if (alpha != 1) product = b.Times(product, alpha);
  if (Output c = n.optional_input(2)) {
    if (beta != 1) c = b.Times(c, beta);
    const bool bias = ShapeOf(c).known_rank() && ShapeOf(c).rank() == 1 && DimOf(c, 0) > 1 && IsFloating(TypeOf(c)) &&
                      DimOf(product, 1) == DimOf(c, 0);
    product = bias ? b.Op("BiasAdd", {product, c}) : b.Add(product, c);
  }
  n.set_output(0, product);
  return n.status();
}
RIVULET_ONNX("Gemm", Gemm);

// "ij,jk->ik" without spaces; a missing right side means the indices that occur once, in order, after the ellipsis.
Status Einsum(NodeContext& n) {
  std::string equation = n.String("equation", "");
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos) {
    std::map<char, int> count;
    for (char c : equation)
      if (c != ',' && c != '.') ++count[c];
    equation += equation.find('.') == std::string::npos ? "->" : "->...";
    for (const auto& [index, times] : count)
      if (times == 1) equation += index;
  }
  n.set_output(0, n.b().Op("Einsum", n.inputs(), {{"equation", equation}}));
  return n.status();
}
RIVULET_ONNX("Einsum", Einsum);

}  // namespace
}  // namespace rivulet::onnx
