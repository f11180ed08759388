// Shapes and the order of axes.
#include <algorithm>
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

// 0 keeps the input's size (unless allowzero), -1 takes what is left. As long as one size alone is open the new shape
// is a constant that leaves it to the number of elements; else the sizes that are open are computed when the graph
// runs.
Status Reshape(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  std::vector<Dimension> sizes;
  if (n.opset() < 5) {
    const std::vector<int64_t> given = n.Ints("shape");
    sizes.assign(given.begin(), given.end());
  } else {
    RIVULET_ASSIGN_OR_RETURN(sizes, n.IntElements(1));
  }
  if (!n.status().ok()) return n.status();
  const bool ranked = ShapeOf(x).known_rank();
  std::vector<Dimension> own;
  if (ranked) {
    RIVULET_ASSIGN_OR_RETURN(own, n.Sizes(0));
  }
  std::vector<bool> kept(sizes.size());  // as the input has them
  std::optional<size_t> rest;
  std::optional<Dimension> others = Dimension(1), all = Dimension(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Dimension(0) && !n.Flag("allowzero", false)) {
      RIVULET_RETURN_IF_ERROR(n.Rank(0).status());
      if (i >= own.size())
        return InvalidArgument("size {} of the shape is 0, but the input has {} axes", i, own.size());
      sizes[i] = own[i];
      kept[i] = true;
    }
    if (sizes[i] == Dimension(-1)) {
      rest = i;
    } else if (others) {
      others = others->Times(sizes[i]);
    }
  }
  for (const Dimension& size : own)
    if (all) all = all->Times(size);
  std::vector<int64_t> known;
  for (const Dimension& size : sizes)
    known.push_back(size.IsNumber() && size.number() >= 0 ? size.number() : kUnknownDim);
  if (rest && ranked && all && others)
    if (const std::optional<Dimension> left = all->Over(*others); left && left->IsNumber() && left->number() >= 0)
      known[*rest] = left->number();
  const auto open = std::ranges::count(known, kUnknownDim);
  if (open == 0 || (open == 1 && std::ranges::find(known, 0) == known.end())) {
    n.set_output(0, b.Reshape(x, known));
    return n.status();
  }
  std::vector<Output> dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    dims.push_back(known[i] != kUnknownDim ? b.Int(known[i])
                   : kept[i]               ? b.Dim(x, static_cast<int>(i))
                   : rest == i             ? b.Int(-1)
                                           : n.Element(1, sizes, i));
  n.set_output(0, b.Op("Reshape", {x, b.Stack(dims, 0)}));
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
  if (rows != kUnknownDim || columns != kUnknownDim) {
    n.set_output(0, b.Reshape(x, {rows, columns}));
    return n.status();
  }
  const Output dims = b.Dims(x);
  const Output first = b.Reduce("Prod", b.Slice(dims, 0, 0, axis), {0}, false);
  n.set_output(0, b.Op("Reshape", {x, b.Stack({first, b.Int(-1)}, 0)}));
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

Status ShapeOfInput(NodeContext& n) {
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
RIVULET_ONNX("Shape", ShapeOfInput);

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
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> repeats, n.IntElements(1));
  std::vector<Output> times;
  for (size_t i = 0; i < repeats.size(); ++i) times.push_back(n.Element(1, repeats, i));
  n.set_output(0, b.Op("Tile", {n.input(0), b.Vector(times)}));
  return n.status();
}
RIVULET_ONNX("Tile", Tile);

// Broadcasts both ways: a size of 1 asked for keeps the input's, and so does one that is the input's own.
Status Expand(NodeContext& n) {
  const Builder& b = n.b();
  const Output x = n.input(0);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> asked, n.IntElements(1));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Dimension> own, n.Sizes(0));
  std::vector<Output> sizes;
  const size_t rank = std::max(own.size(), asked.size());
  for (size_t i = 0; i < rank; ++i) {
    const bool has = i + own.size() >= rank, asks = i + asked.size() >= rank;
    const size_t at = i + own.size() - rank, ask = i + asked.size() - rank;
    const bool keeps = has && (!asks || asked[ask] == Dimension(1) || asked[ask] == own[at] ||
                               (own[at].IsNumber() && own[at].number() > 1 && !asked[ask].IsNumber()));
    sizes.push_back(keeps ? b.Dim(x, static_cast<int>(at)) : n.Element(1, asked, ask));
  }
  n.set_output(0, sizes.empty() ? b.Op("Identity", {x}) : b.BroadcastTo(x, b.Vector(sizes)));
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

// Selects elements of the last two axes by their diagonal: column - row compared with k.
Output Diagonal(const Builder& b, Output x, int rank, std::string_view comparison, int64_t k) {
  const Output difference = b.Sub(b.Positions(x, rank - 1, 2, 1), b.Positions(x, rank - 2, 2, 0));
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
  if (rank < 2) return InvalidArgument("{} is no matrix", ShapeOf(x).ToString());
  const Output kept = Diagonal(b, x, rank, n.Flag("upper", true) ? "GreaterEqual" : "LessEqual", k);
  n.set_output(0, b.Select(kept, x, b.ScalarLike(x, 0)));
  return n.status();
}
RIVULET_ONNX("Trilu", Trilu);

}  // namespace
}  // namespace rivulet::onnx
