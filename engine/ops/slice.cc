// Parts of a tensor, and tensors as parts of larger ones: slices and tiles.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/strided_slice.h"

namespace rivulet {

// Python's rules have more corners than anyone writes twice alike, so shape functions, kernels and the export to ONNX
// all ask here. Sizes may be unknown then: an entry whose axis is unknown has an unknown result, and the others are
// exact. The number of steps is (distance − 1) / stride + 1, since distance + stride − 1 runs over for strides near
// 2^63.
StatusOr<StridedSliceGeometry> ResolveStridedSlice(const AttrMap& attrs, const Shape& input,
                                                   std::span<const int64_t> begin, std::span<const int64_t> end,
                                                   std::span<const int64_t> strides) {
  if (begin.size() != strides.size() || end.size() != strides.size())
    return InvalidArgument("begin, end and strides have {}, {} and {} entries; they must have as many", begin.size(),
                           end.size(), strides.size());
  const size_t entries = strides.size();
  if (entries > 32) return InvalidArgument("a slice of {} axes; at most 32 are possible", entries);
  const auto mask = [&](const char* name, size_t i) {
    return ((static_cast<uint64_t>(std::get<int64_t>(attrs.at(name))) >> i) & 1) != 0;
  };
  size_t ellipsis = entries;  // absent: one stands behind the last entry
  int consumed = 0;           // axes that entries name
  for (size_t i = 0; i < entries; ++i) {
    if (mask("ellipsis_mask", i)) {
      if (ellipsis != entries) return InvalidArgument("a slice can have one ellipsis, not more");
      ellipsis = i;
    } else if (!mask("new_axis_mask", i)) {
      ++consumed;
    }
  }
  if (consumed > input.rank())
    return InvalidArgument("the slice names {} axes, but the input {} has {}", consumed, input.ToString(),
                           input.rank());
  StridedSliceGeometry geometry;
  std::vector<int64_t> dims;
  int axis = 0;
  const auto take_whole_axes = [&] {
    for (int i = consumed; i < input.rank(); ++i, ++axis) {
      geometry.begin.push_back(0);
      geometry.stride.push_back(1);
      geometry.size.push_back(input.dim(axis));
      dims.push_back(input.dim(axis));
    }
  };
  for (size_t i = 0; i < entries; ++i) {
    if (i == ellipsis) {
      take_whole_axes();
      continue;
    }
    if (mask("new_axis_mask", i)) {
      dims.push_back(1);
      continue;
    }
    const int64_t dim = input.dim(axis), stride = strides[i];
    if (stride == 0) return InvalidArgument("the stride of entry {} is 0", i);
    if (stride == INT64_MIN) return InvalidArgument("the stride of entry {} is out of range", i);
    const bool whole = mask("begin_mask", i) && mask("end_mask", i);
    geometry.stride.push_back(stride);
    if (mask("shrink_axis_mask", i)) {
      if (stride < 0) return InvalidArgument("entry {} picks one element and must have a positive stride", i);
      int64_t index = begin[i];
      if (dim != kUnknownDim) {
        if (index < 0) index += dim;
        if (index < 0 || index >= dim)
          return InvalidArgument("index {} of entry {} is outside axis {} of {}", begin[i], i, axis, input.ToString());
      }
      geometry.begin.push_back(index);
      geometry.size.push_back(1);
    } else if (dim == kUnknownDim) {
      geometry.begin.push_back(whole && stride > 0 ? 0 : kUnknownDim);
      geometry.size.push_back(kUnknownDim);
      dims.push_back(kUnknownDim);
    } else {
      // Positions from 0 to dim for a positive stride, from -1 to dim - 1 for a negative one.
      const int64_t lowest = stride > 0 ? 0 : -1, highest = stride > 0 ? dim : dim - 1;
      const auto place = [&](int64_t position) {
        return std::clamp(position < 0 ? position + dim : position, lowest, highest);
      };
      const int64_t first = mask("begin_mask", i) ? (stride > 0 ? lowest : highest) : place(begin[i]);
      const int64_t last = mask("end_mask", i) ? (stride > 0 ? highest : lowest) : place(end[i]);
      const int64_t distance = stride > 0 ? last - first : first - last;
      const int64_t step = stride > 0 ? stride : -stride;
      const int64_t size = distance <= 0 ? 0 : (distance - 1) / step + 1;
      geometry.begin.push_back(size == 0 ? 0 : first);
      geometry.size.push_back(size);
      dims.push_back(size);
    }
    ++axis;
  }
  if (ellipsis == entries) take_whole_axes();
  geometry.output = Shape(std::move(dims));
  return geometry;
}

namespace {

Status SliceShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto begin, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(auto size, KnownIntegers(c, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape sizes, ShapeFromInput(c, 2, /*allow_minus_one=*/true));
  const int rank = x.known_rank() ? x.rank() : sizes.known_rank() ? sizes.rank() : -1;
  if (rank < 0) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  for (const auto* entries : {&begin, &size})
    if (*entries && static_cast<int>((*entries)->size()) != rank)
      return InvalidArgument("begin and size must have an entry for each of the {} axes of {}, not {}", rank,
                             x.ToString(), (*entries)->size());
  std::vector<int64_t> dims(static_cast<size_t>(rank), kUnknownDim);
  for (int axis = 0; axis < rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t dim = x.known_rank() ? x.dim(axis) : kUnknownDim;
    if (sizes.known_rank()) dims[i] = sizes.dim(axis);
    if (!begin || !size) continue;
    const int64_t first = (*begin)[i], count = (*size)[i];
    if (first < 0) return InvalidArgument("begin of axis {} is {}, below 0", axis, first);
    if (dim == kUnknownDim) continue;
    if (first > dim || (count >= 0 && count > dim - first))
      return InvalidArgument("the slice [{}, {} + {}) is outside axis {} of {}", first, first, count, axis,
                             x.ToString());
    dims[i] = count < 0 ? dim - first : count;
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// [[before, after] per axis] as Pad takes them.
// Padding with zeros undoes a slice. Where the shapes are known the amounts are a constant of the graph, and the nodes
// that would compute them are not there.
Status SliceGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0);
  const auto begin = ConstantIntegers(g.input(1));
  const Shape &from = x.shape(), &to = g.output(0).shape();
  if (begin && from.IsFullyKnown() && to.IsFullyKnown()) {
    Tensor paddings(DType::kInt32, Shape({from.rank(), 2}));
    for (int axis = 0; axis < from.rank(); ++axis) {
      const auto i = static_cast<size_t>(axis);
      paddings.flat<int32_t>()[2 * i] = static_cast<int32_t>((*begin)[i]);
      paddings.flat<int32_t>()[2 * i + 1] = static_cast<int32_t>(from.dim(axis) - to.dim(axis) - (*begin)[i]);
    }
    g.set_input_grad(0, ops.Op("Pad", {g.grad(), g.scope().Const(std::move(paddings))}));
    return ops.status();
  }
  const Output before = ops.AsInt32(g.input(1));
  const Output after = ops.Sub(ops.Sub(ops.ShapeOf(x), ops.ShapeOf(g.output(0))), before);
  const Output paddings = ops.Op("Pack", {before, after}, {{"axis", int64_t{1}}});
  g.set_input_grad(0, ops.Op("Pad", {g.grad(), paddings}));
  return ops.status();
}

// Where places are open, such as the end at a text's length, the rank and the other axes are known all the same.
Status PartlyKnownSlice(InferenceContext& c) {
  const Shape& entries = c.input(3);
  Shape input = c.input(0);
  c.set_output(0, Shape::UnknownRank());
  if (!input.known_rank() || !entries.known_rank() || entries.rank() != 1 || entries.dim(0) == kUnknownDim ||
      entries.dim(0) > 32)
    return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(auto strides, KnownIntegers(c, 3));
  const auto count = static_cast<size_t>(entries.dim(0));
  const auto begin = c.input_as_shape(1), end = c.input_as_shape(2);
  const bool by_axis = c.attr<int64_t>("ellipsis_mask") == 0 && c.attr<int64_t>("new_axis_mask") == 0;
  std::vector<int64_t> first(count, 0), last(count, 0);
  const auto places = [&](const std::optional<Shape>& known, const char* mask, std::vector<int64_t>& into, size_t i) {
    const bool has = known && static_cast<size_t>(known->rank()) == count && known->dim(static_cast<int>(i)) >= 0;
    if (has) into[i] = known->dim(static_cast<int>(i));
    return has || (c.attr<int64_t>(mask) >> i & 1) != 0;
  };
  for (int axis = 0; axis < input.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (i >= count && by_axis) continue;
    const bool known = by_axis && strides && places(begin, "begin_mask", first, i) && places(end, "end_mask", last, i);
    if (!known) input.set_dim(axis, kUnknownDim);
  }
  const std::vector<int64_t> ones(count, 1);
  RIVULET_ASSIGN_OR_RETURN(auto geometry,
                           ResolveStridedSlice(c.attrs(), input, first, last, strides ? *strides : ones));
  c.set_output(0, std::move(geometry.output));
  return absl::OkStatus();
}

Status StridedSliceShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(auto begin, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(auto end, KnownIntegers(c, 2));
  RIVULET_ASSIGN_OR_RETURN(auto strides, KnownIntegers(c, 3));
  if (!begin || !end || !strides || !c.input(0).known_rank()) return PartlyKnownSlice(c);
  RIVULET_ASSIGN_OR_RETURN(auto geometry, ResolveStridedSlice(c.attrs(), c.input(0), *begin, *end, *strides));
  c.set_output(0, std::move(geometry.output));
  return absl::OkStatus();
}

Status StridedSliceGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 0));
  RIVULET_ASSIGN_OR_RETURN(auto begin, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(auto end, KnownIntegers(c, 2));
  RIVULET_ASSIGN_OR_RETURN(auto strides, KnownIntegers(c, 3));
  if (begin && end && strides && shape.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(auto geometry, ResolveStridedSlice(c.attrs(), shape, *begin, *end, *strides));
    if (!Shape::Compatible(geometry.output, c.input(4)))
      return InvalidArgument("dy is {}, but the slice of {} is {}", c.input(4).ToString(), shape.ToString(),
                             geometry.output.ToString());
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

AttrMap Masks(const Node& node) {
  AttrMap attrs;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"})
    attrs.emplace(name, node.attrs().at(name));
  return attrs;
}

Status StridedSliceGradient(GradientContext& g) {
  GradientOps ops(g);
  Output shape = ops.ShapeOf(g.input(0));
  // Ends such as 2^63 - 1, for all there is, have no place in 32 bits.
  if (g.input(1).dtype() == DType::kInt64) shape = ops.Op("Cast", {shape}, {{"DstT", DType::kInt64}});
  g.set_input_grad(0,
                   ops.Op("StridedSliceGrad", {shape, g.input(1), g.input(2), g.input(3), g.grad()}, Masks(*g.node())));
  return ops.status();
}

Status StridedSliceGradGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(4, ops.Op("StridedSlice", {g.grad(), g.input(1), g.input(2), g.input(3)}, Masks(*g.node())));
  return ops.status();
}

Status TileShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto multiples, KnownIntegers(c, 1));
  if (x.known_rank() && multiples && static_cast<int>(multiples->size()) != x.rank())
    return InvalidArgument("multiples must have an entry for each of the {} axes of {}, not {}", x.rank(), x.ToString(),
                           multiples->size());
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), kUnknownDim);
  // Single multiples may be known where others, such as the batch, are not.
  if (const auto partial = multiples ? std::nullopt : c.input_as_shape(1); partial && partial->rank() == x.rank()) {
    for (int axis = 0; axis < x.rank(); ++axis) {
      RIVULET_ASSIGN_OR_RETURN(dims[static_cast<size_t>(axis)], MultiplyDims(x.dim(axis), partial->dim(axis)));
    }
  }
  for (int axis = 0; axis < x.rank() && multiples; ++axis) {
    const auto i = static_cast<size_t>(axis);
    if ((*multiples)[i] < 0) return InvalidArgument("multiple {} of axis {} is negative", (*multiples)[i], axis);
    RIVULET_ASSIGN_OR_RETURN(dims[i], MultiplyDims(x.dim(axis), (*multiples)[i]));
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// The gradient in the shape [m0, d0, m1, d1, …], summed over the repetitions.
Status TileGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output x = g.input(0), multiples = ops.AsInt32(g.input(1));
  const Output pairs = ops.Op("Pack", {multiples, ops.ShapeOf(x)}, {{"axis", int64_t{1}}});
  const Output interleaved = ops.Op("Reshape", {g.grad(), ops.Op("Reshape", {pairs, ops.Ints({-1})})});
  Output axes;
  if (x.shape().known_rank()) {
    std::vector<int64_t> even;
    for (int axis = 0; axis < x.shape().rank(); ++axis) even.push_back(2 * axis);
    axes = ops.Ints(std::move(even));
  } else {
    axes = ops.Op("Range", {ops.Int(0), ops.Op("Size", {pairs}), ops.Int(2)});
  }
  g.set_input_grad(0, ops.Sum(interleaved, axes, /*keep_dims=*/false));
  return ops.status();
}

#define RIVULET_STRIDED_SLICE_ATTRS   \
  Attr("Index: {int32, int64}")       \
      .Attr("begin_mask: int = 0")    \
      .Attr("end_mask: int = 0")      \
      .Attr("ellipsis_mask: int = 0") \
      .Attr("new_axis_mask: int = 0") \
      .Attr("shrink_axis_mask: int = 0")

RIVULET_OP("Slice")
    .Input("input: T")
    .Input("begin: Index")
    .Input("size: Index")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Index: {int32, int64}")
    .Shape(SliceShape)
    .Gradient(SliceGradient)
    .Doc("size elements from begin along each axis; a size of -1 takes the rest. Both must be known when compiled.");

RIVULET_OP("StridedSlice")
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .RIVULET_STRIDED_SLICE_ATTRS.Shape(StridedSliceShape)
    .Gradient(StridedSliceGradient)
    .Doc(
        "input[begin:end:strides, …] with Python's meaning; masks say which entries are open, …, newaxis or an index.");

Status StridedSliceUpdateShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  c.set_output(0, input);
  RIVULET_ASSIGN_OR_RETURN(auto begin, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(auto end, KnownIntegers(c, 2));
  RIVULET_ASSIGN_OR_RETURN(auto strides, KnownIntegers(c, 3));
  if (!input.known_rank() || !begin || !end || !strides) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(auto geometry, ResolveStridedSlice(c.attrs(), input, *begin, *end, *strides));
  if (!Shape::Compatible(geometry.output, c.input(4)))
    return InvalidArgument("value {} is not of the shape of the slice, {}", c.input(4).ToString(),
                           geometry.output.ToString());
  return absl::OkStatus();
}

Status StridedSliceUpdateGradient(GradientContext& g) {
  GradientOps ops(g);
  const std::vector<Output> where = {g.input(1), g.input(2), g.input(3)};
  const Output taken = ops.Op("StridedSlice", {g.grad(), where[0], where[1], where[2]}, Masks(*g.node()));
  g.set_input_grad(4, taken);
  g.set_input_grad(0, ops.Op("TensorStridedSliceUpdate", {g.grad(), where[0], where[1], where[2], ops.ZerosLike(taken)},
                             Masks(*g.node())));
  return ops.status();
}

RIVULET_OP("TensorStridedSliceUpdate")
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .RIVULET_STRIDED_SLICE_ATTRS.Shape(StridedSliceUpdateShape)
    .Gradient(StridedSliceUpdateGradient)
    .Doc("input with value in the place that StridedSlice would take.");

RIVULET_OP("StridedSliceGrad")
    .Input("shape: Index")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("dy: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .RIVULET_STRIDED_SLICE_ATTRS.Shape(StridedSliceGradShape)
    .Gradient(StridedSliceGradGradient)
    .Doc("Zeros of the given shape with dy in the place that StridedSlice would take.");

RIVULET_OP("Tile")
    .Input("input: T")
    .Input("multiples: Tmultiples")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tmultiples: {int32, int64} = DT_INT32")
    .Shape(TileShape)
    .Gradient(TileGradient)
    .Doc("input repeated multiples[axis] times along each axis.");

}  // namespace
}  // namespace rivulet
