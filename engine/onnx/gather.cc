// Elements taken and put by index: gather, scatter, one-hot, top-k, positions.
#include <algorithm>
#include <numeric>

#include "engine/onnx/operator.h"
#include "engine/onnx/sequences.h"
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

StatusOr<int64_t> Product(const Shape& shape, int from, int to) {
  int64_t product = 1;
  for (int i = from; i < to; ++i) product *= shape.dim(i);  // known shapes passed CheckedElements
  return product;
}

// Where each element of `indices`, of data's rank, points in flattened data: `indices` along `axis`, its own place
// along the others.
StatusOr<Output> FlatElements(NodeContext& n, const Shape& data, Output indices, int axis) {
  const Builder& b = n.b();
  const Shape& shape = ShapeOf(indices);
  if (!shape.IsFullyKnown() || shape.rank() != data.rank())
    return InvalidArgument("indices {} do not fit data {}", shape.ToString(), data.ToString());
  Output flat = b.Int(0);
  for (int i = 0; i < data.rank(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t stride, Product(data, i + 1, data.rank()));
    const Output place = i == axis ? Wrapped(b, indices, b.Int(data.dim(i))) : b.Iota(shape.dim(i), shape.rank(), i);
    flat = b.Add(flat, b.Mul(place, b.Int(stride)));
  }
  return b.Reshape(flat, {-1});
}

Status GatherElements(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape data, n.KnownShape(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), data.rank()));
  RIVULET_ASSIGN_OR_RETURN(const Output flat, FlatElements(n, data, n.input(1), axis));
  const Output taken = b.Op("GatherV2", {b.Reshape(n.input(0), {-1}), flat, b.Int32(0)});
  n.set_output(0, b.ReshapeLike(taken, n.input(1)));
  return n.status();
}
RIVULET_ONNX("GatherElements", GatherElements);

// The row that each index vector points to, where data's axes [batch, batch + k) are flattened to rows: [M] for
// indices [.., k], after `batch` leading axes that both share.
StatusOr<Output> FlatRows(NodeContext& n, const Shape& data, Output indices, int batch) {
  const Builder& b = n.b();
  const Shape& shape = ShapeOf(indices);
  if (!shape.IsFullyKnown() || shape.rank() < 1 || batch < 0 || batch >= shape.rank())
    return InvalidArgument("indices {} with {} batch axes", shape.ToString(), batch);
  const int last = shape.rank() - 1;
  const int64_t depth = shape.dim(last);
  if (depth < 1 || batch + depth > data.rank())
    return InvalidArgument("indices of {} into data {}", depth, data.ToString());
  const int end = batch + static_cast<int>(depth);
  Output flat = b.Int(0);
  for (int i = 0; i < end; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t stride, Product(data, i + 1, end));
    const Output place =
        i < batch ? b.Iota(shape.dim(i), last, i) : Wrapped(b, b.At(indices, last, i - batch), b.Int(data.dim(i)));
    flat = b.Add(flat, b.Mul(place, b.Int(stride)));
  }
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end() - 1);
  return b.Reshape(b.BroadcastTo(flat, b.Ints(dims)), {-1});
}

Status GatherND(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape data, n.KnownShape(0));
  RIVULET_ASSIGN_OR_RETURN(const Shape indices, n.KnownShape(1));
  const int batch = static_cast<int>(std::clamp<int64_t>(n.Int("batch_dims", 0), -1, 254));
  RIVULET_ASSIGN_OR_RETURN(const Output rows, FlatRows(n, data, n.input(1), batch));
  const int end = batch + static_cast<int>(indices.dim(indices.rank() - 1));
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, Product(data, 0, end));
  RIVULET_ASSIGN_OR_RETURN(const int64_t width, Product(data, end, data.rank()));
  const Output taken = b.Op("GatherV2", {b.Reshape(n.input(0), {count, width}), rows, b.Int32(0)});
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end() - 1);
  for (int i = end; i < data.rank(); ++i) dims.push_back(data.dim(i));
  n.set_output(0, b.Reshape(taken, dims));
  return n.status();
}
RIVULET_ONNX("GatherND", GatherND);

// data [N,S] with updates [M,S] put into, or combined with, its rows [M].
StatusOr<Output> ScatterRows(NodeContext& n, Output data, Output rows, Output updates, const std::string& reduction) {
  const Builder& b = n.b();
  const int64_t count = DimOf(data, 0), updated = DimOf(rows, 0), width = DimOf(data, 1);
  if (count == kUnknownDim || updated == kUnknownDim || width == kUnknownDim)
    return FailedPrecondition("the shapes of data and indices must be known");
  if (reduction == "none") {
    const Output places = b.Cast(b.Iota(count, 1, 0), DType::kInt32);
    return b.Op("DynamicStitch", {places, b.Cast(rows, DType::kInt32), data, updates});
  }
  if (reduction == "add") {
    return b.Add(data, b.Op("UnsortedSegmentSum", {updates, rows, b.Int(count)}));
  }
  const std::string_view op = reduction == "mul" ? "Mul" : reduction == "max" ? "Maximum" : "Minimum";
  if (op == "Minimum" && reduction != "min") return Unimplemented("reduction '{}'", reduction);
  // Each update takes part in its own row; small, or it would not be done this way.
  if (updated * std::max<int64_t>(1, count) > (int64_t{1} << 26) / std::max<int64_t>(1, width))
    return ResourceExhausted("reduction '{}' of {} updates into {} rows", reduction, updated, count);
  Output result = data;
  const Output own = b.Iota(count, 2, 0);
  for (int64_t i = 0; i < updated; ++i) {
    const Output here = b.Equal(own, b.At(rows, 0, i));
    result = b.Select(here, b.Op(op, {result, b.At(updates, 0, i)}), result);
  }
  return result;
}

Status ScatterElements(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape data, n.KnownShape(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), data.rank()));
  RIVULET_ASSIGN_OR_RETURN(const Output rows, FlatElements(n, data, n.input(1), axis));
  RIVULET_ASSIGN_OR_RETURN(const Output result,
                           ScatterRows(n, b.Reshape(n.input(0), {-1, 1}), rows, b.Reshape(n.input(2), {-1, 1}),
                                       n.String("reduction", "none")));
  n.set_output(0, b.ReshapeLike(result, n.input(0)));
  return n.status();
}
RIVULET_ONNX("ScatterElements", ScatterElements);
RIVULET_ONNX("Scatter", ScatterElements);

Status ScatterND(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const Shape data, n.KnownShape(0));
  RIVULET_ASSIGN_OR_RETURN(const Shape indices, n.KnownShape(1));
  RIVULET_ASSIGN_OR_RETURN(const Output rows, FlatRows(n, data, n.input(1), 0));
  const int end = static_cast<int>(indices.dim(indices.rank() - 1));
  RIVULET_ASSIGN_OR_RETURN(const int64_t count, Product(data, 0, end));
  RIVULET_ASSIGN_OR_RETURN(const int64_t width, Product(data, end, data.rank()));
  RIVULET_ASSIGN_OR_RETURN(const int64_t updated, Product(indices, 0, indices.rank() - 1));
  RIVULET_ASSIGN_OR_RETURN(const Output result,
                           ScatterRows(n, b.Reshape(n.input(0), {count, width}), rows,
                                       b.Reshape(n.input(2), {updated, width}), n.String("reduction", "none")));
  n.set_output(0, b.ReshapeLike(result, n.input(0)));
  return n.status();
}
RIVULET_ONNX("ScatterND", ScatterND);

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

}  // namespace

Output ReversedSequences(const Builder& b, Output x, Output lengths) {
  // x is [batch, time, …]; the first lengths[i] steps of sequence i are turned around.
  const int64_t steps = DimOf(x, 1);
  if (steps == kUnknownDim) {
    b.Fail(FailedPrecondition("the number of time steps must be known"));
    return {};
  }
  const Output time = b.Iota(steps, 2, 1), length = b.ExpandDims(b.Cast(lengths, DType::kInt64), 1);
  const Output turned = b.Select(b.Less(time, length), b.Sub(b.Sub(length, b.Int(1)), time), time);
  return b.Op("GatherV2", {x, turned, b.Int32(1)}, {{"batch_dims", int64_t{1}}});
}

namespace {

Status ReverseSequence(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int time, n.Axis(n.Int("time_axis", 0), rank));
  RIVULET_ASSIGN_OR_RETURN(const int batch, n.Axis(n.Int("batch_axis", 1), rank));
  if (time + batch != 1) return InvalidArgument("time_axis {} and batch_axis {} must be 0 and 1", time, batch);
  std::vector<int64_t> swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  if (time == 0) std::swap(swap[0], swap[1]);
  n.set_output(0, b.Transpose(ReversedSequences(b, b.Transpose(n.input(0), swap), n.input(1)), swap));
  return n.status();
}
RIVULET_ONNX("ReverseSequence", ReverseSequence);

}  // namespace
}  // namespace rivulet::onnx
