// Shapes and the order of axes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

// The axes of an operator that had them as an attribute before opset `since` and has them as input 1 since; nullopt
// when left out.
StatusOr<std::optional<std::vector<int64_t>>> AxesOf(NodeContext& n, int64_t since) {
  if (n.opset() < since) {
    if (!n.has_attr("axes")) return std::optional<std::vector<int64_t>>();
    return std::optional(n.Ints("axes"));
  }
  if (!n.has_input(1)) return std::optional<std::vector<int64_t>>();
  RIVULET_ASSIGN_OR_RETURN(std::vector<int64_t> axes, n.IntValues(1));
  return std::optional(std::move(axes));
}

// 0 keeps the input's size (unless allowzero), -1 takes what is left.
Status Reshape(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  std::vector<int64_t> sizes;
  if (n.opset() < 5) {
    sizes = n.Ints("shape");
  } else if (const auto known = n.IntValuesIfKnown(1)) {
    sizes = *known;
  } else {
    return n.Value(1).status();
  }
  if (!n.status().ok()) return n.status();
  std::vector<Output> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0 || n.Flag("allowzero", false)) {
      dims.push_back(b.Int(sizes[i]));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
    if (static_cast<int>(i) >= rank)
      return InvalidArgument("size {} of the shape is 0, but the input has {} axes", i, rank);
    dims.push_back(b.Dim(x, static_cast<int>(i)));
  }
  n.set_output(0, b.Shaped(x, dims));
  return n.status();
}
RIVULET_ONNX("Reshape", Reshape);

// A matrix: the product of the sizes before `axis` by that of the others.
Status Flatten(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t wanted = n.Int("axis", 1);
  if (wanted < -rank || wanted > rank) return InvalidArgument("axis {} of a tensor with {} axes", wanted, rank);
  const int axis = static_cast<int>(wanted < 0 ? wanted + rank : wanted);
  const auto product = [&](int from, int to) {
    int64_t all = 1;
    for (int i = from; i < to; ++i) {
      const int64_t size = DimOf(x, i);
      if (size == kUnknownDim) return kUnknownDim;
      all *= size;
    }
    return all;
  };
  const int64_t rows = product(0, axis), columns = product(axis, rank);
  if (rows == kUnknownDim && columns == kUnknownDim)
    return FailedPrecondition("the sizes before or after axis {} must be known", axis);
  n.set_output(0, b.Reshape(x, {rows, columns}));
  return n.status();
}
RIVULET_ONNX("Flatten", Flatten);

Status Squeeze(NodeContext& n) {
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto axes, AxesOf(n, 13));
  std::vector<int64_t> squeezed;
  if (axes) {
    RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
    RIVULET_ASSIGN_OR_RETURN(squeezed, n.Axes(*axes, rank));
    if (squeezed.empty()) {
      n.set_output(0, n.b().Op("Identity", {x}));
      return n.status();
    }
  }
  n.set_output(0, n.b().Op("Squeeze", {x}, {{"squeeze_dims", squeezed}}));
  return n.status();
}
RIVULET_ONNX("Squeeze", Squeeze);

Status Unsqueeze(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const auto given, AxesOf(n, 13));
  if (!given) return InvalidArgument("needs axes");
  if (given->size() > 254) return InvalidArgument("{} new axes", given->size());
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, n.Axes(*given, rank + static_cast<int>(given->size())));
  for (int64_t axis : axes) x = b.ExpandDims(x, static_cast<int>(axis));
  n.set_output(0, axes.empty() ? b.Op("Identity", {x}) : x);
  return n.status();
}
RIVULET_ONNX("Unsqueeze", Unsqueeze);

Status Transpose(NodeContext& n) {
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (n.has_attr("perm")) perm = n.Ints("perm");
  n.set_output(0, n.b().Op("Transpose", {x, n.b().Int32s(perm)}));
  return n.status();
}
RIVULET_ONNX("Transpose", Transpose);

Status Shape(NodeContext& n) {
  const Builder& b = n.b();
  const Output dims = b.Dims(n.input(0));
  if (n.opset() < 15 || (!n.has_attr("start") && !n.has_attr("end"))) {
    n.set_output(0, dims);
    return n.status();
  }
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const auto clamp = [rank](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(n.Int("start", 0)), end = clamp(n.Int("end", rank));
  n.set_output(0, b.Slice(dims, 0, start, std::max(start, end)));
  return n.status();
}
RIVULET_ONNX("Shape", Shape);

Status Size(NodeContext& n) {
  const Output x = n.input(0);
  const auto& shape = ShapeOf(x);
  if (shape.IsFullyKnown()) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
    n.set_output(0, n.b().Int(elements));
  } else {
    n.set_output(0, n.b().Op("Size", {x}, {{"out_type", DType::kInt64}}));
  }
  return n.status();
}
RIVULET_ONNX("Size", Size);

Status Concat(NodeContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 1), rank));
  std::vector<Output> parts;
  for (int i = 0; i < n.num_inputs(); ++i) parts.push_back(n.input(i));
  n.set_output(0, parts.size() == 1 ? n.b().Op("Identity", {parts[0]}) : n.b().Concat(parts, axis));
  return n.status();
}
RIVULET_ONNX("Concat", Concat);

// Sizes from the attribute or input `split`, or equal parts (the last smaller where num_outputs says how many).
Status Split(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(n.Int("axis", 0), rank));
  std::vector<int64_t> sizes;
  if ((n.opset() == 1 || n.opset() >= 13) && n.has_input(1)) {
    RIVULET_ASSIGN_OR_RETURN(sizes, n.IntValues(1));
  } else if (n.opset() < 13 && n.has_attr("split")) {
    sizes = n.Ints("split");
  } else {
    const int64_t size = DimOf(x, axis), parts = n.Int("num_outputs", n.num_outputs());
    if (size == kUnknownDim) return FailedPrecondition("the size of axis {} must be known", axis);
    if (parts < 1 || parts != n.num_outputs())
      return InvalidArgument("num_outputs is {}, but there are {}", parts, n.num_outputs());
    const int64_t each = size / parts + (size % parts != 0);
    for (int64_t begin = 0; static_cast<int64_t>(sizes.size()) < parts; begin += each)
      sizes.push_back(std::clamp<int64_t>(size - begin, 0, each));
  }
  if (static_cast<int>(sizes.size()) != n.num_outputs())
    return InvalidArgument("{} sizes are given for {} outputs", sizes.size(), n.num_outputs());
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t end = 0;
    if (sizes[i] < 0 || __builtin_add_overflow(begin, sizes[i], &end))
      return InvalidArgument("part {} has the size {}", i, sizes[i]);
    n.set_output(static_cast<int>(i), b.Slice(x, axis, begin, end));
    begin = end;
  }
  if (const int64_t size = DimOf(x, axis); size != kUnknownDim && size != begin)
    return InvalidArgument("the parts have {} elements of axis {}, which has {}", begin, axis, size);
  return n.status();
}
RIVULET_ONNX("Split", Split);

// Backwards from `start`, counted from the end, along an axis whose size is known only when the graph runs.
Output SliceBackwards(const Builder& b, Output x, int axis, int64_t start, int64_t end, int64_t step) {
  if (axis >= 32) return b.Slice(x, axis, start, end, step);  // and its error
  const auto size = static_cast<size_t>(axis) + 1;
  std::vector<Output> begins(size, b.Int(0));
  begins.back() = b.Maximum(b.Add(b.Dim(x, axis), b.Int(start)), b.Int(0));
  std::vector<int64_t> ends(size, 0), steps(size, 1);
  ends.back() = end;
  steps.back() = step;
  const int64_t others = (int64_t{1} << axis) - 1;
  return b.Op("StridedSlice", {x, b.Stack(begins, 0), b.Ints(ends), b.Ints(steps)},
              {{"begin_mask", others}, {"end_mask", others}});
}

Status Slice(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> starts, ends, axes, steps;
  if (n.opset() < 10) {
    starts = n.Ints("starts");
    ends = n.Ints("ends");
    axes = n.Ints("axes");
  } else {
    RIVULET_ASSIGN_OR_RETURN(starts, n.IntValues(1));
    RIVULET_ASSIGN_OR_RETURN(ends, n.IntValues(2));
    if (n.has_input(3)) {
      RIVULET_ASSIGN_OR_RETURN(axes, n.IntValues(3));
    }
    if (n.has_input(4)) {
      RIVULET_ASSIGN_OR_RETURN(steps, n.IntValues(4));
    }
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return InvalidArgument("starts, ends, axes and steps have {}, {}, {} and {} elements", starts.size(), ends.size(),
                           axes.size(), steps.size());
  std::vector<bool> cut(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    if (cut[static_cast<size_t>(axis)]) return InvalidArgument("axis {} is cut twice", axis);
    cut[static_cast<size_t>(axis)] = true;
    // Ends far outside mean "to the end"; within what StridedSlice adds a size to without overflow.
    constexpr int64_t far = int64_t{1} << 60;
    int64_t start = std::clamp(starts[i], -far, far), end = std::clamp(ends[i], -far, far);
    const int64_t step = std::clamp(steps[i], -far, far), size = DimOf(x, axis);
    if (step < 0 && size > 0) {
      // Backwards, a start before the first element means the first, unlike NumPy's.
      start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size - 1);
      end = std::clamp<int64_t>(end < 0 ? end + size : end, -1, size - 1);
    }
    if (step < 0 && size == kUnknownDim && start < 0) {
      x = SliceBackwards(b, x, axis, start, end, step);
      continue;
    }
    x = step < 0 && size > 0 && end == -1 ? b.From(x, axis, start, step) : b.Slice(x, axis, start, end, step);
  }
  n.set_output(0, b.Op("Identity", {x}));
  return n.status();
}
RIVULET_ONNX("Slice", Slice);

// Edge and wrap: rows of the input put before and after it. A negative amount cuts.
Output PadAxis(const Builder& b, Output x, int axis, int64_t before, int64_t after, bool edge) {
  const int64_t size = DimOf(x, axis);
  if (size == kUnknownDim || size == 0) {
    b.Fail(FailedPrecondition("the size of axis {} must be known and not 0", axis));
    return {};
  }
  if (before + after + size > (int64_t{1} << 24)) {
    b.Fail(ResourceExhausted("an axis padded to {}", before + after + size));
    return {};
  }
  std::vector<int64_t> indices;
  for (int64_t i = -before; i < size + after; ++i)
    indices.push_back(edge ? std::clamp<int64_t>(i, 0, size - 1) : ((i % size) + size) % size);
  return b.Op("GatherV2", {x, b.Ints(indices), b.Int32(axis)});
}

Output ReflectAxis(const Builder& b, Output x, int axis, int64_t before, int64_t after) {
  const int64_t size = DimOf(x, axis);
  if (size == kUnknownDim || size == 0 || before + after + size > (int64_t{1} << 24)) {
    b.Fail(FailedPrecondition("the size of axis {} must be known, not 0 and not too large", axis));
    return {};
  }
  const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
  std::vector<int64_t> indices;
  for (int64_t i = -before; i < size + after; ++i) {
    const int64_t at = ((i % period) + period) % period;
    indices.push_back(at < size ? at : period - at);
  }
  return b.Op("GatherV2", {x, b.Ints(indices), b.Int32(axis)});
}

Status Pad(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> pads, axes;
  Output value;
  if (n.opset() < 11) {
    pads = n.Ints(n.opset() == 1 ? "paddings" : "pads");
    value = b.ScalarLike(x, n.Float("value", 0));
  } else {
    RIVULET_ASSIGN_OR_RETURN(pads, n.IntValues(1));
    value = n.has_input(2) ? b.Reshape(n.input(2), std::vector<int64_t>{}) : b.ScalarLike(x, 0);
    if (n.has_input(3)) {
      RIVULET_ASSIGN_OR_RETURN(axes, n.IntValues(3));
    }
  }
  if (!n.has_input(3)) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (pads.size() != 2 * axes.size())
    return InvalidArgument("{} amounts are given for {} axes", pads.size(), axes.size());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after(static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    for (const auto& [list, amount] : {std::pair(&before, pads[i]), std::pair(&after, pads[i + axes.size()])}) {
      if (amount < -(int64_t{1} << 40) || amount > (int64_t{1} << 40))
        return InvalidArgument("axis {} is padded by {}", axis, amount);
      (*list)[static_cast<size_t>(axis)] = amount;
    }
  }
  const std::string mode = n.String("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return Unimplemented("mode '{}'", mode);
  for (int axis = 0; axis < rank; ++axis) {
    int64_t &first = before[static_cast<size_t>(axis)], &last = after[static_cast<size_t>(axis)];
    const int64_t cut_before = std::max<int64_t>(0, -first), cut_after = std::max<int64_t>(0, -last);
    first = std::max<int64_t>(0, first);
    last = std::max<int64_t>(0, last);
    if (mode == "reflect" && (first > 0 || last > 0)) x = ReflectAxis(b, x, axis, first, last);
    if ((mode == "edge" || mode == "wrap") && (first > 0 || last > 0))
      x = PadAxis(b, x, axis, first, last, mode == "edge");
    if (cut_after > 0) {
      x = b.Slice(x, axis, cut_before, -cut_after);
    } else if (cut_before > 0) {
      x = b.From(x, axis, cut_before);
    }
  }
  n.set_output(0, b.Op("Identity", {mode == "constant" ? b.Pad(x, before, after, value) : x}));
  return n.status();
}
RIVULET_ONNX("Pad", Pad);

Status Tile(NodeContext& n) {
  const Builder& b = n.b();
  if (n.opset() < 6) {  // one axis, `tiles` times
    RIVULET_ASSIGN_OR_RETURN(const int64_t tiles, n.IntValue(1));
    RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.IntValue(2));
    RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
    RIVULET_ASSIGN_OR_RETURN(const int at, n.Axis(axis, rank));
    std::vector<int64_t> multiples(static_cast<size_t>(rank), 1);
    multiples[static_cast<size_t>(at)] = tiles;
    n.set_output(0, b.Op("Tile", {n.input(0), b.Ints(multiples)}));
    return n.status();
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, n.IntValues(1));
  n.set_output(0, b.Op("Tile", {n.input(0), b.Ints(repeats)}));
  return n.status();
}
RIVULET_ONNX("Tile", Tile);

// Broadcasts both ways: a size of 1 asked for keeps the input's.
Status Expand(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  const auto dims = n.IntValuesIfKnown(1);
  if (!dims) return n.Value(1).status();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<Output> sizes;
  const int result = std::max(rank, static_cast<int>(dims->size()));
  for (int i = 0; i < result; ++i) {
    const int own = i - (result - rank), asked = i - (result - static_cast<int>(dims->size()));
    const int64_t size = asked < 0 ? 1 : (*dims)[static_cast<size_t>(asked)];
    sizes.push_back(size == 1 && own >= 0 ? b.Dim(x, own) : b.Int(size));
  }
  n.set_output(0, sizes.empty() ? b.Op("Identity", {x}) : b.BroadcastTo(x, b.Stack(sizes, 0)));
  return n.status();
}
RIVULET_ONNX("Expand", Expand);

// Blocks of channels become blocks of pixels, and back. NCHW.
Status DepthToSpace(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t block = n.Int("blocksize", 0), channels = DimOf(x, 1);
  if (rank != 4 || block < 1 || block > (1 << 20) || channels == kUnknownDim || channels % (block * block) != 0)
    return InvalidArgument("blocks of {} do not divide the channels of {}", block, ShapeOf(x).ToString());
  const std::string mode = n.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return InvalidArgument("mode '{}' is neither DCR nor CRD", mode);
  const Output depth = b.Int(channels / block / block), size = b.Int(block), height = b.Dim(x, 2), width = b.Dim(x, 3);
  const Output split = mode == "DCR" ? b.Shaped(x, {b.Dim(x, 0), size, size, depth, height, width})
                                     : b.Shaped(x, {b.Dim(x, 0), depth, size, size, height, width});
  const Output moved = b.Transpose(
      split, mode == "DCR" ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  n.set_output(0, b.Shaped(moved, {b.Dim(x, 0), depth, b.Mul(height, size), b.Mul(width, size)}));
  return n.status();
}
RIVULET_ONNX("DepthToSpace", DepthToSpace);

Status SpaceToDepth(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t block = n.Int("blocksize", 0);
  if (rank != 4 || block < 1 || block > (1 << 20))
    return InvalidArgument("blocks of {} in {}", block, ShapeOf(x).ToString());
  const std::string mode = n.String("mode", "DCR");
  const Output size = b.Int(block), channels = b.Dim(x, 1), height = b.Div(b.Dim(x, 2), size),
               width = b.Div(b.Dim(x, 3), size);
  const Output split = b.Shaped(x, {b.Dim(x, 0), channels, height, size, width, size});
  const Output moved = b.Transpose(
      split, mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  n.set_output(0, b.Shaped(moved, {b.Dim(x, 0), b.Mul(channels, b.Mul(size, size)), height, width}));
  return n.status();
}
RIVULET_ONNX("SpaceToDepth", SpaceToDepth);

// Cut or padded with zeros on both sides to the sizes wanted; an odd element is cut, or put, at the end.
Status CenterCropPad(NodeContext& n) {
  const Builder& b = n.b();
  Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, n.IntValues(1));
  std::vector<int64_t> axes(static_cast<size_t>(rank)), before(axes.size(), 0), after = before;
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has_attr("axes")) axes = n.Ints("axes");
  if (axes.size() != sizes.size()) return InvalidArgument("{} sizes are given for {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], rank));
    const int64_t size = DimOf(x, axis), wanted = sizes[i];
    if (size == kUnknownDim) return FailedPrecondition("the size of axis {} must be known", axis);
    if (wanted < 0 || wanted > (int64_t{1} << 40)) return InvalidArgument("a size of {}", wanted);
    if (wanted < size) {
      x = b.Slice(x, axis, (size - wanted) / 2, (size - wanted) / 2 + wanted);
    } else {
      before[static_cast<size_t>(axis)] = (wanted - size) / 2;
      after[static_cast<size_t>(axis)] = wanted - size - (wanted - size) / 2;
    }
  }
  n.set_output(0, b.Op("Identity", {b.Pad(x, before, after)}));
  return n.status();
}
RIVULET_ONNX("CenterCropPad", CenterCropPad);

// Which elements of the last two axes lie on or beside a diagonal: column - row compared with k.
Output Diagonal(const Builder& b, int64_t rows, int64_t columns, std::string_view comparison, int64_t k) {
  const Output difference = b.Sub(b.Iota(columns, 2, 1), b.Iota(rows, 2, 0));
  return b.Op(comparison, {difference, b.Int(k)});
}

Status Trilu(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  int64_t k = 0;
  if (n.has_input(1)) {
    RIVULET_ASSIGN_OR_RETURN(k, n.IntValue(1));
  }
  const int64_t rows = DimOf(x, rank - 2), columns = DimOf(x, rank - 1);
  if (rank < 2 || rows == kUnknownDim || columns == kUnknownDim)
    return FailedPrecondition("the last two sizes of {} must be known", ShapeOf(x).ToString());
  const Output kept = Diagonal(b, rows, columns, n.Flag("upper", true) ? "GreaterEqual" : "LessEqual", k);
  n.set_output(0, b.Select(kept, x, b.ScalarLike(x, 0)));
  return n.status();
}
RIVULET_ONNX("Trilu", Trilu);

}  // namespace
}  // namespace rivulet::onnx
