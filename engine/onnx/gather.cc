// Elements taken and put by index: gather, scatter, one-hot, top-k, positions.
#include <algorithm>
#include <numeric>

#include "engine/onnx/operator.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

// Indices count from the end where they are negative.
Output Wrapped(const Builder& b, Output indices, Output size) {
  const Output wide = b.Cast(indices, DType::kInt64);
  return b.Select(b.Less(wide, b.Int(0)), b.Add(wide, size), wide);
}

Status Gather(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0), indices = n.input(1);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  n.set_output(0, b.Op("GatherV2", {x, Wrapped(b, indices, b.Dim(x, axis)), b.Int32(axis)}));
  return n.status();
}
RIVULET_ONNX("Gather", Gather);

Status GatherElements(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  n.set_output(0, b.Op("TakeAlongAxis", {n.input(0), n.input(1)}, {{"axis", int64_t{axis}}}));
  return n.status();
}
RIVULET_ONNX("GatherElements", GatherElements);

Status ScatterElements(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  n.set_output(0, b.Op("ScatterAlongAxis", {n.input(0), n.input(1), n.input(2)},
                       {{"axis", int64_t{axis}}, {"reduction", n.String("reduction", "none")}}));
  return n.status();
}
RIVULET_ONNX("ScatterElements", ScatterElements);
RIVULET_ONNX("Scatter", ScatterElements);

// Index vectors along the last axis into data's axes from `batch` on, none of them negative.
StatusOr<Output> IndexVectors(NodeContext& n, int batch) {
  const Builder& b = n.b();
  const Output indices = n.input(1);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(1));
  RIVULET_ASSIGN_OR_RETURN(const int data_rank, n.Rank(0));
  const int64_t depth = DimOf(indices, rank - 1);
  if (rank < 1 || depth < 1 || batch + depth > data_rank)
    return InvalidArgument("indices {} into data {}", ShapeOf(indices).ToString(), ShapeOf(n.input(0)).ToString());
  std::vector<Output> sizes;
  for (int64_t i = 0; i < depth; ++i) sizes.push_back(b.Dim(n.input(0), batch + static_cast<int>(i)));
  return Wrapped(b, indices, b.Stack(sizes, 0));
}

Status GatherND(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(1));
  const int64_t batch = n.Int("batch_dims", 0);
  if (batch < 0 || batch >= rank) return InvalidArgument("batch_dims is {}, but indices have {} axes", batch, rank);
  RIVULET_ASSIGN_OR_RETURN(Output indices, IndexVectors(n, static_cast<int>(batch)));
  if (batch > 0) {
    // Each index vector gets its place along the batch axes before it.
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(1));
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.back() = 1;
    std::vector<Output> parts;
    for (int axis = 0; axis < batch; ++axis)
      parts.push_back(b.BroadcastTo(b.Iota(shape.dim(axis), rank, axis), b.Ints(dims)));
    parts.push_back(indices);
    indices = b.Concat(parts, rank - 1);
  }
  n.set_output(0, b.Op("GatherNd", {n.input(0), indices}));
  return n.status();
}
RIVULET_ONNX("GatherND", GatherND);

Status ScatterND(NodeContext& n) {
  const std::string reduction = n.String("reduction", "none");
  const std::string op = reduction == "none"  ? "TensorScatterUpdate"
                         : reduction == "add" ? "TensorScatterAdd"
                         : reduction == "mul" ? "TensorScatterMul"
                         : reduction == "max" ? "TensorScatterMax"
                         : reduction == "min" ? "TensorScatterMin"
                                              : "";
  if (op.empty()) return InvalidArgument("reduction '{}' is not one of none, add, mul, max and min", reduction);
  RIVULET_ASSIGN_OR_RETURN(const Output indices, IndexVectors(n, 0));
  n.set_output(0, n.b().Op(op, {n.input(0), indices, n.input(2)}));
  return n.status();
}
RIVULET_ONNX("ScatterND", ScatterND);

// Updates put into a cache along one axis, from a position of each example's own on; circular: around its end.
Status TensorScatter(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -2), rank));
  const std::string mode = n.String("mode", "linear");
  if (mode != "linear" && mode != "circular") return InvalidArgument("mode '{}' is neither linear nor circular", mode);
  const Output update = n.input(1);
  const int64_t steps = DimOf(update, axis);
  if (axis == 0 || steps == kUnknownDim)
    return FailedPrecondition("the size of axis {} must be known, and it not the batch", axis);
  Output place = b.Iota(steps, rank, axis);
  if (n.has_input(2)) {
    std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
    dims[0] = -1;
    place = b.Add(place, b.Reshape(b.Cast(n.input(2), DType::kInt64), dims));
  }
  if (mode == "circular") place = b.Op("FloorMod", {place, b.Dim(n.input(0), axis)});
  place = b.BroadcastTo(place, b.Dims(update));
  n.set_output(0, b.Op("ScatterAlongAxis", {n.input(0), place, update}, {{"axis", int64_t{axis}}}));
  return n.status();
}
RIVULET_ONNX("TensorScatter", TensorScatter);

Status OneHot(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<double> depth, n.NumberValues(1));
  if (depth.size() != 1 || !(depth[0] >= 1 && depth[0] <= 0x1p31 - 1))
    return InvalidArgument("the depth is {}", depth.empty() ? 0 : depth[0]);
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -1), rank + 1));
  const Output values = n.input(2), indices = Wrapped(b, n.input(0), b.Int(static_cast<int64_t>(depth[0])));
  n.set_output(
      0, b.Op("OneHot", {indices, b.Int32(static_cast<int64_t>(depth[0])), b.At(values, 0, 1), b.At(values, 0, 0)},
              {{"axis", int64_t{axis}}}));
  return n.status();
}
RIVULET_ONNX("OneHot", OneHot);

// The largest k along an axis in falling order, of equals the one that stands first; or the smallest.
Status TopK(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", -1), rank));
  int64_t k = n.Int("k", 0);
  if (n.opset() >= 10) {
    RIVULET_ASSIGN_OR_RETURN(k, n.IntValue(1));
  }
  if (k < 0 || k > INT32_MAX) return InvalidArgument("k is {}", k);
  const DType dtype = TypeOf(x);
  const bool is_unsigned =
      dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
  Output last = b.ToLast(is_unsigned ? b.Cast(x, DType::kInt64) : x, axis);
  const bool largest = n.Flag("largest", true);
  // The complement of an integer orders backwards without overflow.
  const auto reversed = [&](Output y) { return IsFloating(dtype) ? b.Neg(y) : b.Sub(b.ScalarLike(y, -1), y); };
  if (!largest) last = reversed(last);
  const std::vector<Output> found = b.All("TopKV2", {last, b.Int32(k)}, {{"sorted", true}});
  if (found.size() != 2) return n.status();
  Output values = largest ? found[0] : reversed(found[0]);
  n.set_output(0, b.Cast(b.FromLast(values, axis), dtype));
  n.set_output(1, b.FromLast(b.Cast(found[1], DType::kInt64), axis));
  return n.status();
}
RIVULET_ONNX("TopK", TopK);

Status Arg(NodeContext& n, std::string_view op) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  const bool last = n.Flag("select_last_index", false);
  if (last) x = b.Reverse(x, axis);
  Output found = b.Op(op, {x, b.Int32(axis)}, {{"output_type", DType::kInt64}});
  if (last) found = b.Sub(b.Sub(b.Dim(x, axis), b.Int(1)), found);
  if (n.Flag("keepdims", true)) found = b.ExpandDims(found, axis);
  n.set_output(0, found);
  return n.status();
}
RIVULET_ONNX("ArgMax", [](NodeContext& n) { return Arg(n, "ArgMax"); });
RIVULET_ONNX("ArgMin", [](NodeContext& n) { return Arg(n, "ArgMin"); });

Status Cumulative(NodeContext& n, std::string_view op) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int64_t wanted, n.IntValue(1));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(wanted, rank));
  n.set_output(0, n.b().Op(op, {n.input(0), n.b().Int32(axis)},
                           {{"exclusive", n.Flag("exclusive", false)}, {"reverse", n.Flag("reverse", false)}}));
  return n.status();
}
RIVULET_ONNX("CumSum", [](NodeContext& n) { return Cumulative(n, "Cumsum"); });
RIVULET_ONNX("CumProd", [](NodeContext& n) { return Cumulative(n, "Cumprod"); });

// How many elements come out depends on the values, which must therefore be known.
Status NonZero(NodeContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<double> values, n.NumberValues(0));
  const int rank = std::max(1, shape.rank());
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(rank));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    auto rest = static_cast<int64_t>(i);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t size = shape.rank() == 0 ? 1 : shape.dim(axis);
      places[static_cast<size_t>(axis)].push_back(rest % size);
      rest /= size;
    }
  }
  std::vector<int64_t> flat;
  for (const auto& along : places) flat.insert(flat.end(), along.begin(), along.end());
  n.set_output(0, n.b().Reshape(n.b().Ints(flat), {rank, static_cast<int64_t>(places[0].size())}));
  return n.status();
}
RIVULET_ONNX("NonZero", NonZero);

Status Compress(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> condition, n.IntValues(1));
  int axis = 0;
  if (n.has_attr("axis")) {
    RIVULET_ASSIGN_OR_RETURN(axis, n.Axis(n.Int("axis", 0), rank));
  } else {
    x = b.Reshape(x, {-1});
  }
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) kept.push_back(static_cast<int64_t>(i));
  n.set_output(0, b.Op("GatherV2", {x, b.Ints(kept), b.Int32(axis)}));
  return n.status();
}
RIVULET_ONNX("Compress", Compress);

Status EyeLike(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(0));
  if (shape.rank() != 2) return InvalidArgument("the input {} is no matrix", shape.ToString());
  DType dtype = TypeOf(n.input(0));
  if (n.has_attr("dtype")) {
    RIVULET_ASSIGN_OR_RETURN(dtype, DTypeFromOnnx(static_cast<int>(n.Int("dtype", 1))));
  }
  const Output difference = b.Sub(b.Iota(shape.dim(1), 2, 1), b.Iota(shape.dim(0), 2, 0));
  n.set_output(0, b.Cast(b.Equal(difference, b.Int(n.Int("k", 0))), dtype));
  return n.status();
}
RIVULET_ONNX("EyeLike", EyeLike);

Status ReverseSequence(NodeContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int time, n.Axis(n.Int("time_axis", 0), rank));
  RIVULET_ASSIGN_OR_RETURN(const int batch, n.Axis(n.Int("batch_axis", 1), rank));
  if (time + batch != 1) return InvalidArgument("time_axis {} and batch_axis {} must be 0 and 1", time, batch);
  n.set_output(0, n.b().Op("ReverseSequence", {n.input(0), n.input(1)},
                           {{"seq_dim", int64_t{time}}, {"batch_dim", int64_t{batch}}}));
  return n.status();
}
RIVULET_ONNX("ReverseSequence", ReverseSequence);

}  // namespace
}  // namespace rivulet::onnx
