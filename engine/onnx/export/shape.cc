// Shapes, and moves of data.
#include <algorithm>
#include <limits>

#include "engine/onnx/export/exporter.h"
#include "engine/ops/strided_slice.h"

namespace rivulet::onnx {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// The channel axis is the second if images are stored channels first.
int64_t AxisChannelsFirst(int64_t axis, int rank) { return axis == 0 ? 0 : axis == rank - 1 ? 1 : axis + 1; }

Status SameValue(ExportContext& n) {
  n.Forward(0, 0);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Identity", SameValue);
RIVULET_ONNX_EXPORT("StopGradient", SameValue);
RIVULET_ONNX_EXPORT("PreventGradient", SameValue);
RIVULET_ONNX_EXPORT("Snapshot", SameValue);
RIVULET_ONNX_EXPORT("EnsureShape", SameValue);
RIVULET_ONNX_EXPORT("Print", SameValue);                   // printing is not part of a model
RIVULET_ONNX_EXPORT("PlaceholderWithDefault", SameValue);  // a model is run with the default

RIVULET_ONNX_EXPORT("Shape", [](ExportContext& n) {
  n.set_output_int64(0, n.Op("Shape", {n.input(0)}));
  return absl::OkStatus();
});
RIVULET_ONNX_EXPORT("Size", [](ExportContext& n) {
  n.set_output_int64(0, n.Op("Size", {n.input(0)}));
  return absl::OkStatus();
});
RIVULET_ONNX_EXPORT("Rank", [](ExportContext& n) {
  n.set_output_int64(0, n.Op("Size", {n.Op("Shape", {n.input(0)})}));
  return absl::OkStatus();
});

// A size of 0 means "unchanged" in ONNX unless allowzero is set.
RIVULET_ONNX_EXPORT("Reshape", [](ExportContext& n) {
  const auto sizes = n.IntsIfKnown(1);
  AttrMap attrs;
  if (sizes && std::ranges::find(*sizes, 0) != sizes->end()) attrs["allowzero"] = true;
  n.set_output(0, n.Op("Reshape", {n.input(0), n.int64s(1)}, std::move(attrs)));
  return absl::OkStatus();
});

Status Squeeze(ExportContext& n) {
  std::vector<int64_t> axes = n.attr<std::vector<int64_t>>("squeeze_dims");
  if (axes.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(0));
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (shape.dim(axis) == 1) axes.push_back(axis);
  }
  if (axes.empty())
    n.Forward(0, 0);
  else
    n.set_output(0, n.Squeeze(n.input(0), axes));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Squeeze", Squeeze);

Status ExpandDims(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.KnownInt(1));
  n.set_output(0, n.Unsqueeze(n.input(0), {axis}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ExpandDims", ExpandDims);

Status Transpose(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> perm, n.KnownInts(1));
  // One that only changes the order of an image's axes is a name for what is there.
  const int rank = static_cast<int>(perm.size());
  if (rank >= 3 && n.lies_channels_first(0) && perm == ToChannelsFirst(rank)) {
    n.set_output(0, n.Op("Identity", {n.channels_first(0)}));
    return absl::OkStatus();
  }
  n.set_output(0, n.Op("Transpose", {n.input(0)}, {{"perm", perm}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Transpose", Transpose);

Status Broadcast(ExportContext& n) {
  n.set_output(0, n.Op("Expand", {n.input(0), n.int64s(1)}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("BroadcastTo", Broadcast);

RIVULET_ONNX_EXPORT("Fill", [](ExportContext& n) {
  n.set_output(0, n.Op("Expand", {n.input(1), n.int64s(0)}));
  return absl::OkStatus();
});
Status Filled(ExportContext& n) {
  const Value shape = n.Op("Shape", {n.input(0)});
  n.set_output(0, n.Op("Expand", {n.Scalar(n.dtype(0), n.type() == "OnesLike" ? 1 : 0), shape}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ZerosLike", Filled);
RIVULET_ONNX_EXPORT("OnesLike", Filled);

RIVULET_ONNX_EXPORT("Range", [](ExportContext& n) {
  n.set_output(0, n.Op("Range", n.inputs()));
  return absl::OkStatus();
});

Status ConcatV2(ExportContext& n) {
  const int parts = n.num_inputs() - 1;
  RIVULET_ASSIGN_OR_RETURN(int64_t axis, n.KnownInt(parts));
  std::vector<Value> values;
  bool first = true;
  for (int i = 0; i < parts; ++i) first = first && n.lies_channels_first(i);
  if (first) {
    const int rank = n.shape(0).rank();
    RIVULET_ASSIGN_OR_RETURN(axis, n.Axis(axis, rank));
    for (int i = 0; i < parts; ++i) values.push_back(n.channels_first(i));
    n.set_output_channels_first(0, n.Op("Concat", std::move(values), {{"axis", AxisChannelsFirst(axis, rank)}}));
    return absl::OkStatus();
  }
  const bool sizes = n.dtype(0) == DType::kInt32 && n.shape(0).known_rank() && n.shape(0).rank() == 1;
  for (int i = 0; i < parts; ++i) values.push_back(sizes ? n.int64s(i) : n.input(i));
  const Value joined = n.Op("Concat", std::move(values), {{"axis", axis}});
  if (sizes)
    n.set_output_int64(0, joined);
  else
    n.set_output(0, joined);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ConcatV2", ConcatV2);

Status SplitInto(ExportContext& n, int value, int64_t axis, const std::vector<int64_t>& sizes, int parts) {
  std::vector<Value> inputs = {n.input(value)};
  AttrMap attrs = {{"axis", axis}};
  if (sizes.empty()) {
    attrs["num_outputs"] = int64_t{parts};
  } else {
    inputs.push_back(n.Ints(sizes));
  }
  const std::vector<Value> values = n.All("Split", std::move(inputs), parts, std::move(attrs));
  for (int i = 0; i < parts; ++i) n.set_output(i, values[static_cast<size_t>(i)]);
  return absl::OkStatus();
}
Status Split(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.KnownInt(0));
  return SplitInto(n, 1, axis, {}, static_cast<int>(n.node().outputs().size()));
}
RIVULET_ONNX_EXPORT("Split", Split);

Status SplitV(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, n.KnownInts(1));
  RIVULET_ASSIGN_OR_RETURN(const int64_t axis, n.KnownInt(2));
  const auto open = std::ranges::find(sizes, -1);
  if (open != sizes.end()) {
    RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
    RIVULET_ASSIGN_OR_RETURN(const int at, n.Axis(axis, rank));
    if (n.shape(0).dim(at) == kUnknownDim) return FailedPrecondition("the size of axis {} must be known", at);
    *open = 0;
    int64_t rest = n.shape(0).dim(at);
    for (int64_t size : sizes) rest -= size;
    *open = rest;
  }
  return SplitInto(n, 0, axis, sizes, static_cast<int>(sizes.size()));
}
RIVULET_ONNX_EXPORT("SplitV", SplitV);

RIVULET_ONNX_EXPORT("Pack", [](ExportContext& n) {
  const int64_t axis = n.attr<int64_t>("axis");
  const bool sizes = n.dtype(0) == DType::kInt32 && n.shape(0).known_rank() && n.shape(0).rank() == 0;
  std::vector<Value> values;
  for (int i = 0; i < n.num_inputs(); ++i) values.push_back(n.Unsqueeze(sizes ? n.int64s(i) : n.input(i), {axis}));
  const Value packed = n.Op("Concat", std::move(values), {{"axis", axis}});
  if (sizes)
    n.set_output_int64(0, packed);
  else
    n.set_output(0, packed);
  return absl::OkStatus();
});

Status Unpack(ExportContext& n) {
  const int64_t axis = n.attr<int64_t>("axis");
  const int parts = static_cast<int>(n.node().outputs().size());
  if (parts == 0) return absl::OkStatus();
  const std::vector<Value> values =
      n.All("Split", {n.input(0)}, parts, {{"axis", axis}, {"num_outputs", int64_t{parts}}});
  for (int i = 0; i < parts; ++i)
    if (n.IsUsed(i)) n.set_output(i, n.Squeeze(values[static_cast<size_t>(i)], {axis}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Unpack", Unpack);

Status Slice(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  std::vector<int64_t> axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  if (axes.empty()) {
    n.Forward(0, 0);
    return absl::OkStatus();
  }
  const auto begins = n.IntsIfKnown(1), sizes = n.IntsIfKnown(2);
  if (!sizes) {
    if (!begins || std::ranges::any_of(*begins, [](int64_t begin) { return begin != 0; }))
      RIVULET_RETURN_IF_ERROR(n.KnownInts(2).status());
    n.set_output(0, n.Op("Slice", {n.input(0), n.Ints(*begins), n.int64s(2), n.Ints(axes)}));
    return absl::OkStatus();
  }
  Value begin, end;
  if (begins) {
    std::vector<int64_t> ends;
    for (size_t i = 0; i < sizes->size(); ++i) ends.push_back((*sizes)[i] < 0 ? kEnd : (*begins)[i] + (*sizes)[i]);
    begin = n.Ints(*begins);
    end = n.Ints(ends);
  } else {
    if (std::ranges::any_of(*sizes, [](int64_t size) { return size < 0; }))
      RIVULET_RETURN_IF_ERROR(n.KnownInts(1).status());
    begin = n.int64s(1);
    end = n.Op("Add", {begin, n.Ints(*sizes)});
  }
  n.set_output(0, n.Op("Slice", {n.input(0), begin, end, n.Ints(axes)}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Slice", Slice);

// Masks resolved one entry at a time: what is taken from an axis is a slice, new axes and shrunk ones follow.
Status StridedSlice(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> begin, n.KnownInts(1));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> end, n.KnownInts(2));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> stride, n.KnownInts(3));
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_RETURN_IF_ERROR(ResolveStridedSlice(n.node().attrs(), n.shape(0), begin, end, stride).status());
  const auto mask = [&](const char* name, size_t i) { return (n.attr<int64_t>(name) >> i & 1) != 0; };
  size_t named = 0;  // entries that name an axis of the input
  for (size_t i = 0; i < begin.size(); ++i) {
    if (mask("ellipsis_mask", i)) continue;
    if (!mask("new_axis_mask", i)) ++named;
  }
  std::vector<int64_t> axes, begins, ends, strides, squeezed, added;
  int64_t axis = 0, place = 0;  // of the input, and of what is left before new axes and shrinking
  for (size_t i = 0; i < begin.size(); ++i) {
    if (mask("ellipsis_mask", i)) {
      const int64_t skipped = rank - static_cast<int64_t>(named);
      axis += skipped;
      place += skipped;
    } else if (mask("new_axis_mask", i)) {
      added.push_back(place++);
    } else {
      const bool shrinks = mask("shrink_axis_mask", i);
      axes.push_back(axis);
      strides.push_back(shrinks ? 1 : stride[i]);
      if (shrinks) {
        begins.push_back(begin[i]);
        ends.push_back(begin[i] == -1 ? kEnd : begin[i] + 1);
        squeezed.push_back(axis);
      } else {
        const bool backwards = stride[i] < 0;
        begins.push_back(mask("begin_mask", i) ? (backwards ? kEnd : 0) : begin[i]);
        ends.push_back(mask("end_mask", i) ? (backwards ? -kEnd : kEnd) : end[i]);
        ++place;
      }
      ++axis;
    }
  }
  if (squeezed.empty() && added.empty() && !axes.empty() && n.lies_channels_first(0)) {
    for (int64_t& each : axes) each = AxisChannelsFirst(each, rank);
    n.set_output_channels_first(
        0, n.Op("Slice", {n.channels_first(0), n.Ints(begins), n.Ints(ends), n.Ints(axes), n.Ints(strides)}));
    return absl::OkStatus();
  }
  const bool sizes = n.dtype(0) == DType::kInt32 && rank == 1;
  Value x = sizes ? n.int64s(0) : n.input(0);
  if (!axes.empty()) x = n.Op("Slice", {x, n.Ints(begins), n.Ints(ends), n.Ints(axes), n.Ints(strides)});
  x = n.Unsqueeze(n.Squeeze(x, squeezed), added);
  if (axes.empty() && added.empty()) {
    n.Forward(0, 0);
  } else if (sizes) {
    n.set_output_int64(0, x);
  } else {
    n.set_output(0, x);
  }
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("StridedSlice", StridedSlice);

RIVULET_ONNX_EXPORT("Tile", [](ExportContext& n) {
  n.set_output(0, n.Op("Tile", {n.input(0), n.int64s(1)}));
  return absl::OkStatus();
});

// ONNX takes all amounts before, then all after.
Status Pad(ExportContext& n) {
  std::string mode = "constant";
  if (n.type() == "MirrorPad") {
    if (n.attr<std::string>("mode") != "REFLECT")
      return Unimplemented("mode SYMMETRIC, which repeats the edge; ONNX mirrors without it (REFLECT)");
    mode = "reflect";
  }
  const Value fill = n.type() == "PadV2" ? n.input(2) : Value();
  const AttrMap attrs = {{"mode", mode}};
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const auto amounts = n.IntsIfKnown(1);
  if (!amounts) {
    const Value flat = n.Reshape(n.Op("Transpose", {n.int64s(1)}, {{"perm", std::vector<int64_t>{1, 0}}}), {-1});
    n.set_output(0, n.Op("Pad", {n.input(0), flat, fill}, attrs));
    return absl::OkStatus();
  }
  const bool first = n.lies_channels_first(0);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  for (int axis = 0; axis < rank; ++axis) order[static_cast<size_t>(axis)] = axis;
  if (first) order = ToChannelsFirst(rank);
  std::vector<int64_t> pads;
  for (size_t side = 0; side < 2; ++side)
    for (int64_t axis : order) pads.push_back((*amounts)[2 * static_cast<size_t>(axis) + side]);
  if (first)
    n.set_output_channels_first(0, n.Op("Pad", {n.channels_first(0), n.Ints(pads), fill}, attrs));
  else
    n.set_output(0, n.Op("Pad", {n.input(0), n.Ints(pads), fill}, attrs));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Pad", Pad);
RIVULET_ONNX_EXPORT("PadV2", Pad);
RIVULET_ONNX_EXPORT("MirrorPad", Pad);

Status Reverse(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, n.KnownInts(1));
  if (axes.empty()) {
    n.Forward(0, 0);
    return absl::OkStatus();
  }
  const size_t count = axes.size();
  n.set_output(
      0, n.Op("Slice", {n.input(0), n.Ints(std::vector<int64_t>(count, -1)), n.Ints(std::vector<int64_t>(count, -kEnd)),
                        n.Ints(axes), n.Ints(std::vector<int64_t>(count, -1))}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ReverseV2", Reverse);

Status ReverseSequence(ExportContext& n) {
  const int64_t time = n.attr<int64_t>("seq_dim"), batch = n.attr<int64_t>("batch_dim");
  if (time < 0 || batch < 0 || time > 1 || batch > 1)
    return Unimplemented("seq_dim {} and batch_dim {}; ONNX reverses over the first two axes", time, batch);
  n.set_output(0, n.Op("ReverseSequence", {n.input(0), n.int64s(1)}, {{"time_axis", time}, {"batch_axis", batch}}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ReverseSequence", ReverseSequence);

Status Roll(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> shifts, n.KnownInts(1));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, n.KnownInts(2));
  RIVULET_ASSIGN_OR_RETURN(const Shape shape, n.KnownShape(0));
  Value x = n.input(0);
  bool moved = false;
  for (size_t i = 0; i < shifts.size() && i < axes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, n.Axis(axes[i], shape.rank()));
    const int64_t size = shape.dim(axis);
    const int64_t shift = size == 0 ? 0 : ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    x = n.Concat({n.Slice(x, axis, size - shift, kEnd), n.Slice(x, axis, 0, size - shift)}, axis);
    moved = true;
  }
  if (moved)
    n.set_output(0, x);
  else
    n.Forward(0, 0);
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("Roll", Roll);

// Blocks: ONNX's images have channels first, and "DCR" is the order of both.
Status Blocks(ExportContext& n) {
  AttrMap attrs = {{"blocksize", n.attr<int64_t>("block_size")}};
  if (n.type() == "DepthToSpace") attrs["mode"] = std::string("DCR");
  if (n.attr<std::string>("data_format") == "NCHW")
    n.set_output(0, n.Op(n.type(), {n.input(0)}, attrs));
  else
    n.set_output_channels_first(0, n.Op(n.type(), {n.channels_first(0)}, attrs));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("SpaceToDepth", Blocks);
RIVULET_ONNX_EXPORT("DepthToSpace", Blocks);

struct SpatialBlocks {
  std::vector<int64_t> block, amounts;  // amounts: before and after, for each axis
  Shape shape;
  size_t axes() const { return block.size(); }
};
StatusOr<SpatialBlocks> SpatialBlocksOf(ExportContext& n) {
  SpatialBlocks blocks;
  RIVULET_ASSIGN_OR_RETURN(blocks.block, n.KnownInts(1));
  RIVULET_ASSIGN_OR_RETURN(blocks.amounts, n.KnownInts(2));
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  blocks.shape = n.shape(0);
  for (int axis = 1; axis < rank; ++axis)
    if (blocks.shape.dim(axis) == kUnknownDim)
      return FailedPrecondition("all sizes of {} but the first must be known", blocks.shape.ToString());
  return blocks;
}

// Pixels of a block go to the batch: split off, moved to the front, joined with it.
Status SpaceToBatch(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const SpatialBlocks blocks, SpatialBlocksOf(n));
  const int rank = blocks.shape.rank();
  const auto axes = static_cast<int>(blocks.axes());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after = before, split = {-1}, perm, joined = {-1};
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<size_t>(i);
    before[at + 1] = blocks.amounts[2 * at];
    after[at + 1] = blocks.amounts[2 * at + 1];
    const int64_t size = blocks.shape.dim(i + 1) + before[at + 1] + after[at + 1];
    split.insert(split.end(), {size / blocks.block[at], blocks.block[at]});
    joined.push_back(size / blocks.block[at]);
    perm.push_back(2 * i + 2);
  }
  perm.push_back(0);
  for (int i = 0; i < axes; ++i) perm.push_back(2 * i + 1);
  for (int axis = axes + 1; axis < rank; ++axis) {
    split.push_back(blocks.shape.dim(axis));
    joined.push_back(blocks.shape.dim(axis));
    perm.push_back(axes + axis);
  }
  before.insert(before.end(), after.begin(), after.end());
  const Value padded = n.Op("Pad", {n.input(0), n.Ints(before)});
  n.set_output(0, n.Reshape(n.Transpose(n.Reshape(padded, split), perm), joined));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("SpaceToBatchND", SpaceToBatch);

Status BatchToSpace(ExportContext& n) {
  RIVULET_ASSIGN_OR_RETURN(const SpatialBlocks blocks, SpatialBlocksOf(n));
  const int rank = blocks.shape.rank();
  const auto axes = static_cast<int>(blocks.axes());
  std::vector<int64_t> split = blocks.block, perm = {axes}, joined = {-1}, places, begins, ends;
  split.push_back(-1);
  for (int i = 0; i < axes; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t size = blocks.shape.dim(i + 1);
    split.push_back(size);
    perm.insert(perm.end(), {axes + 1 + i, i});
    joined.push_back(size * blocks.block[at]);
    places.push_back(i + 1);
    begins.push_back(blocks.amounts[2 * at]);
    ends.push_back(size * blocks.block[at] - blocks.amounts[2 * at + 1]);
  }
  for (int axis = axes + 1; axis < rank; ++axis) {
    split.push_back(blocks.shape.dim(axis));
    joined.push_back(blocks.shape.dim(axis));
    perm.push_back(axes + axis);
  }
  const Value whole = n.Reshape(n.Transpose(n.Reshape(n.input(0), split), perm), joined);
  n.set_output(0, n.Op("Slice", {whole, n.Ints(begins), n.Ints(ends), n.Ints(places)}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("BatchToSpaceND", BatchToSpace);

RIVULET_ONNX_EXPORT("MatrixBandPart", [](ExportContext& n) -> Status {
  RIVULET_ASSIGN_OR_RETURN(const int64_t lower, n.KnownInt(1));
  RIVULET_ASSIGN_OR_RETURN(const int64_t upper, n.KnownInt(2));
  Value x = n.input(0);
  if (lower < 0 && upper < 0) {
    n.Forward(0, 0);
    return absl::OkStatus();
  }
  if (lower >= 0) x = n.Op("Trilu", {x, n.Int(-lower)}, {{"upper", true}});
  if (upper >= 0) x = n.Op("Trilu", {x, n.Int(upper)}, {{"upper", false}});
  n.set_output(0, x);
  return absl::OkStatus();
});

}  // namespace
}  // namespace rivulet::onnx
