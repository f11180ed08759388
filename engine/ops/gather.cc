// Elements chosen by index, and their way back.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_ANY "{half, bfloat16, float, double, int32, int64, uint8, bool}"
#define RIVULET_SIGNED "{half, bfloat16, float, double, int32, int64}"

Status GatherShape(InferenceContext& c) {
  const Shape &params = c.input(0), &indices = c.input(1);
  if (c.attr<int64_t>("batch_dims") != 0)
    return Unimplemented("batch_dims = {}; only 0 is provided", c.attr<int64_t>("batch_dims"));
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 2));
  if (params.known_rank() && params.rank() == 0) return InvalidArgument("params is a scalar: nothing to choose from");
  if (!params.known_rank() || !indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (!axis) {
    c.set_output(0, Shape(std::vector<int64_t>(static_cast<size_t>(params.rank() - 1 + indices.rank()), kUnknownDim)));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, params.rank()));
  std::vector<int64_t> dims(params.dims().begin(), params.dims().begin() + normal);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), params.dims().begin() + normal + 1, params.dims().end());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// Sums the gradient of each choice into its place. For an axis other than 0 the axes of indices are moved to the front
// and back.
Status GatherGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output params = g.input(0), indices = g.input(1);
  const auto axis = ConstantIntegers(g.input(2));
  if (!axis || !params.shape().known_rank() || !indices.shape().known_rank())
    return Unimplemented("the gradient of GatherV2 with an axis or ranks that are unknown when it is built");
  const int rank = params.shape().rank(), index_rank = indices.shape().rank();
  RIVULET_ASSIGN_OR_RETURN(const int chosen, NormalizeAxis(axis->front(), rank));
  const Output count =
      params.shape().dim(chosen) != kUnknownDim
          ? ops.Int(params.shape().dim(chosen))
          : ops.Op("StridedSlice", {ops.ShapeOf(params), ops.Ints({chosen}), ops.Ints({chosen + 1}), ops.Ints({1})},
                   {{"shrink_axis_mask", int64_t{1}}});
  Output grad = g.grad();
  if (chosen == 0) {
    g.set_input_grad(0, ops.Op("UnsortedSegmentSum", {grad, indices, count}));
    return ops.status();
  }
  std::vector<int64_t> to_front, back;
  for (int i = 0; i < index_rank; ++i) to_front.push_back(chosen + i);
  for (int i = 0; i < chosen; ++i) to_front.push_back(i);
  for (int i = chosen + index_rank; i < rank - 1 + index_rank; ++i) to_front.push_back(i);
  for (int i = 0; i < rank; ++i) back.push_back(i < chosen ? i + 1 : i == chosen ? 0 : i);
  grad = ops.Op("Transpose", {grad, ops.Ints(std::move(to_front))});
  grad = ops.Op("UnsortedSegmentSum", {grad, indices, count});
  g.set_input_grad(0, ops.Op("Transpose", {grad, ops.Ints(std::move(back))}));
  return ops.status();
}

Status SegmentSumShape(InferenceContext& c) {
  const Shape &data = c.input(0), &ids = c.input(1);
  RIVULET_ASSIGN_OR_RETURN(auto count, KnownInteger(c, 2));
  if (count && *count < 0) return InvalidArgument("num_segments is {}, below 0", *count);
  if (!data.known_rank() || !ids.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  const bool prefix =
      ids.rank() <= data.rank() &&
      Shape::Compatible(ids, Shape(std::vector<int64_t>(data.dims().begin(), data.dims().begin() + ids.rank())));
  if (!prefix)
    return InvalidArgument("data {} must begin with the shape of segment_ids, {}", data.ToString(), ids.ToString());
  std::vector<int64_t> dims = {count ? *count : kUnknownDim};
  dims.insert(dims.end(), data.dims().begin() + ids.rank(), data.dims().end());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// Each element's gradient is that of its segment; a negative id belongs to none.
Status SegmentSumGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output ids = g.input(1);
  const Shape &data_shape = g.input(0).shape(), &ids_shape = ids.shape();
  if (!data_shape.known_rank() || !ids_shape.known_rank())
    return Unimplemented("the gradient of UnsortedSegmentSum with ranks that are unknown when it is built");
  const Output zero = ops.Scalar(ids.dtype(), 0);
  const Output gathered = ops.Op("GatherV2", {g.grad(), ops.Op("Maximum", {ids, zero}), ops.Int(0)});
  Output belongs = ops.Op("GreaterEqual", {ids, zero});
  for (int i = ids_shape.rank(); i < data_shape.rank(); ++i) belongs = ops.Op("ExpandDims", {belongs, ops.Int(-1)});
  g.set_input_grad(0, ops.Op("SelectV2", {belongs, gathered, ops.ZerosLike(gathered)}));
  return ops.status();
}

Status OneHotShape(InferenceContext& c) {
  const Shape& indices = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto depth, KnownInteger(c, 1));
  if (depth && *depth < 0) return InvalidArgument("depth is {}, below 0", *depth);
  for (int i : {2, 3})
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("on_value and off_value must be scalars, but input {} has shape {}", i,
                             c.input(i).ToString());
  if (!indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), indices.rank() + 1));
  std::vector<int64_t> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.begin() + axis, depth ? *depth : kUnknownDim);
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

// The first axis is one longer than the largest index.
Status StitchShape(InferenceContext& c) {
  const int count = c.num_inputs() / 2;
  int64_t size = 0;
  Shape rest = Shape::UnknownRank();
  for (int i = 0; i < count; ++i) {
    const Shape &indices = c.input(i), &data = c.input(count + i);
    const Tensor* value = c.input_value(i);
    if (value == nullptr) size = kUnknownDim;
    if (value != nullptr && size != kUnknownDim) {
      for (int32_t index : value->flat<int32_t>()) {
        if (index < 0) return InvalidArgument("indices {} hold {}, below 0", i, index);
        size = std::max<int64_t>(size, int64_t{index} + 1);
      }
    }
    if (!indices.known_rank() || !data.known_rank()) continue;
    const bool prefix =
        indices.rank() <= data.rank() &&
        Shape::Compatible(indices,
                          Shape(std::vector<int64_t>(data.dims().begin(), data.dims().begin() + indices.rank())));
    if (!prefix)
      return InvalidArgument("data {} of shape {} must begin with the shape of its indices, {}", i, data.ToString(),
                             indices.ToString());
    auto merged =
        Shape::Merge(rest, Shape(std::vector<int64_t>(data.dims().begin() + indices.rank(), data.dims().end())));
    if (!merged.ok())
      return InvalidArgument("data {} of shape {} has other elements than those before it", i, data.ToString());
    rest = *std::move(merged);
  }
  if (rest.known_rank()) {
    std::vector<int64_t> dims = {size};
    dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
    rest = Shape(std::move(dims));
  }
  c.set_output(0, std::move(rest));
  return absl::OkStatus();
}

RIVULET_OP("GatherV2")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Input("axis: Taxis")
    .Output("output: Tparams")
    .Attr("batch_dims: int = 0")
    .Attr("Tparams: " RIVULET_ANY)
    .Attr("Tindices: {int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(GatherShape)
    .Gradient(GatherGradient)
    .Doc("The slices of params along an axis that indices name. An index out of range is an error.");

RIVULET_OP("UnsortedSegmentSum")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("output: T")
    .Attr("T: " RIVULET_SIGNED)
    .Attr("Tindices: {int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .Shape(SegmentSumShape)
    .Gradient(SegmentSumGradient)
    .Doc("output[i] is the sum of the slices of data whose segment id is i, in their order; negative ids are dropped.");

RIVULET_OP("OneHot")
    .Input("indices: TI")
    .Input("depth: int32")
    .Input("on_value: T")
    .Input("off_value: T")
    .Output("output: T")
    .Attr("axis: int = -1")
    .Attr("T: " RIVULET_ANY)
    .Attr("TI: {uint8, int32, int64} = DT_INT64")
    .Shape(OneHotShape)
    .NotDifferentiable("TensorFlow defines no gradient by on_value and off_value")
    .Doc("on_value at each index along a new axis of size depth, off_value elsewhere; an index outside marks nothing.");

RIVULET_OP("DynamicStitch")
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: " RIVULET_ANY)
    .Shape(StitchShape)
    .NotDifferentiable("it serves shapes here")
    .Doc("merged[indices[m][i]] = data[m][i]; the last wins. Indices must be known when a program is compiled.");

}  // namespace
}  // namespace rivulet
