// Reductions over axes.
#include <numeric>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// Axes were an attribute until opset 17 (12 for ReduceSum) and are input 1 since. Without axes all are meant, or none
// where noop_with_empty_axes says so.
struct Reduced {
  std::vector<int64_t> axes;
  bool keep = true;
  bool none = false;
};
StatusOr<Reduced> Axes(NodeContext& n) {
  Reduced reduced;
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t since = n.op_type() == "ReduceSum" ? 13 : 18;
  std::vector<int64_t> axes;
  if (n.opset() < since) {
    axes = n.Ints("axes");
  } else if (n.has_input(1)) {
    RIVULET_ASSIGN_OR_RETURN(axes, n.IntValues(1));
  }
  reduced.keep = n.Flag("keepdims", true);
  if (axes.empty()) {
    reduced.none = n.opset() >= since && n.Flag("noop_with_empty_axes", false);
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  RIVULET_ASSIGN_OR_RETURN(reduced.axes, n.Axes(std::move(axes), rank));
  return reduced;
}

// The ops around an operator's sum: before(x), the reduction, after(y).
using Part = Output (*)(const Builder& b, Output x);
Output Same(const Builder&, Output x) { return x; }

Status Reduce(NodeContext& n, std::string_view op, Part before = Same, Part after = Same) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Reduced reduced, Axes(n));
  const Output x = before(b, n.input(0));
  const Output y = after(b, reduced.none ? x : b.Reduce(op, x, reduced.axes, reduced.keep));
  n.set_output(0, y == n.input(0) ? b.Op("Identity", {y}) : y);
  return n.status();
}

Output Abs(const Builder& b, Output x) { return b.Op("Abs", {x}); }
Output Square(const Builder& b, Output x) { return b.Square(x); }
Output Sqrt(const Builder& b, Output x) {
  // Of integers too, as the reference computes them: in floating point, and cut.
  if (IsFloating(TypeOf(x))) return b.Sqrt(x);
  return b.Cast(b.Sqrt(b.Cast(x, DType::kFloat64)), TypeOf(x));
}
Output Log(const Builder& b, Output x) {
  if (IsFloating(TypeOf(x))) return b.Log(x);
  return b.Cast(b.Log(b.Cast(x, DType::kFloat64)), TypeOf(x));
}

RIVULET_ONNX("ReduceSum", [](NodeContext& n) { return Reduce(n, "Sum"); });
RIVULET_ONNX("ReduceMean", [](NodeContext& n) { return Reduce(n, "Mean"); });
RIVULET_ONNX("ReduceProd", [](NodeContext& n) { return Reduce(n, "Prod"); });
RIVULET_ONNX("ReduceL1", [](NodeContext& n) { return Reduce(n, "Sum", Abs); });
RIVULET_ONNX("ReduceL2", [](NodeContext& n) { return Reduce(n, "Sum", Square, Sqrt); });
RIVULET_ONNX("ReduceSumSquare", [](NodeContext& n) { return Reduce(n, "Sum", Square); });
RIVULET_ONNX("ReduceLogSum", [](NodeContext& n) { return Reduce(n, "Sum", Same, Log); });

RIVULET_ONNX("ReduceMax", [](NodeContext& n) { return Reduce(n, TypeOf(n.input(0)) == DType::kBool ? "Any" : "Max"); });
RIVULET_ONNX("ReduceMin", [](NodeContext& n) { return Reduce(n, TypeOf(n.input(0)) == DType::kBool ? "All" : "Min"); });

// log Σ e^x = m + log Σ e^(x - m), where m is the largest x, or 0 where that is infinite.
Status ReduceLogSumExp(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Reduced reduced, Axes(n));
  const Output x = n.input(0);
  if (reduced.none) {
    n.set_output(0, b.Op("Identity", {x}));
    return n.status();
  }
  const Output highest = b.Reduce("Max", x, reduced.axes, true);
  const Output difference = b.Sub(highest, highest);  // NaN where infinite
  const Output largest = b.Op("StopGradient", {b.Select(b.Equal(difference, difference), highest, b.ScalarLike(x, 0))});
  const Output sum = b.Reduce("Sum", b.Exp(b.Sub(x, largest)), reduced.axes, reduced.keep);
  Output shift = largest;
  if (!reduced.keep) shift = b.ReshapeLike(largest, sum);
  n.set_output(0, b.Add(b.Log(sum), shift));
  return n.status();
}
RIVULET_ONNX("ReduceLogSumExp", ReduceLogSumExp);

}  // namespace
}  // namespace rivulet::onnx
