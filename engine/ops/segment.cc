// Slices joined by the segment they belong to.
#include <algorithm>

#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

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

// Returns for each slice of data the `values` of its segment, and zeros if its id is negative.
struct Belonging {
  Output values;
  Output is_positive;  // in the shape of data
};
StatusOr<Belonging> FromSegments(GradientContext& g, GradientOps& ops, Output values) {
  const Output ids = g.input(1);
  const Shape &data_shape = g.input(0).shape(), &ids_shape = ids.shape();
  if (!data_shape.known_rank() || !ids_shape.known_rank())
    return Unimplemented("the gradient of {} with ranks that are unknown when it is built", g.node()->type());
  const Output zero = ops.Scalar(ids.dtype(), 0);
  const Output gathered = ops.Op("GatherV2", {values, ops.Op("Maximum", {ids, zero}), ops.Int(0)});
  Output belongs = ops.Op("GreaterEqual", {ids, zero});
  for (int i = ids_shape.rank(); i < data_shape.rank(); ++i) belongs = ops.Op("ExpandDims", {belongs, ops.Int(-1)});
  return Belonging{ops.Op("SelectV2", {belongs, gathered, ops.ZerosLike(gathered)}), belongs};
}

// Each element's gradient is that of its segment; a negative id belongs to none.
Status SegmentSumGradient(GradientContext& g) {
  GradientOps ops(g);
  RIVULET_ASSIGN_OR_RETURN(const Belonging gradient, FromSegments(g, ops, g.grad()));
  g.set_input_grad(0, gradient.values);
  return ops.status();
}

// Elements that tie for the extreme of their segment share its gradient equally.
Status SegmentExtremeGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output data = g.input(0);
  RIVULET_ASSIGN_OR_RETURN(const Belonging extreme, FromSegments(g, ops, g.output(0)));
  const Output chosen = ops.Op("LogicalAnd", {ops.Op("Equal", {data, extreme.values}), extreme.is_positive});
  const Output ones = ops.Op("Cast", {chosen}, {{"DstT", data.dtype()}});
  const Output count = ops.Op("UnsortedSegmentSum", {ones, g.input(1), g.input(2)});
  RIVULET_ASSIGN_OR_RETURN(const Belonging share, FromSegments(g, ops, ops.Op("DivNoNan", {g.grad(), count})));
  g.set_input_grad(0, ops.Mul(ones, share.values));
  return ops.status();
}

// A product without one of its factors: divided by it, or, where it is the only 0, the product of the others.
Status SegmentProdGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output data = g.input(0), zero = ops.Scalar(data.dtype(), 0), one = ops.Scalar(data.dtype(), 1);
  const Output is_zero = ops.Op("Equal", {data, zero});
  const Output zeros =
      ops.Op("UnsortedSegmentSum", {ops.Op("Cast", {is_zero}, {{"DstT", data.dtype()}}), g.input(1), g.input(2)});
  const Output grad = ops.Op("SelectV2", {ops.Op("Greater", {zeros, one}), ops.ZerosLike(g.grad()), g.grad()});
  const Output others =
      ops.Op("UnsortedSegmentProd", {ops.Op("SelectV2", {is_zero, one, data}), g.input(1), g.input(2)});
  RIVULET_ASSIGN_OR_RETURN(const Belonging product, FromSegments(g, ops, g.output(0)));
  RIVULET_ASSIGN_OR_RETURN(const Belonging nonzero_product, FromSegments(g, ops, others));
  RIVULET_ASSIGN_OR_RETURN(const Belonging own, FromSegments(g, ops, grad));
  const Output divisor = ops.Op("SelectV2", {is_zero, one, data});
  const Output partial = ops.Op("SelectV2", {is_zero, nonzero_product.values, ops.Div(product.values, divisor)});
  g.set_input_grad(0, ops.Mul(own.values, partial));
  return ops.status();
}

#define RIVULET_SEGMENT_OP(name)                                \
  RIVULET_OP(name)                                              \
      .Input("data: T")                                         \
      .Input("segment_ids: Tindices")                           \
      .Input("num_segments: Tnumsegments")                      \
      .Output("output: T")                                      \
      .Attr("T: {half, bfloat16, float, double, int32, int64}") \
      .Attr("Tindices: {int32, int64}")                         \
      .Attr("Tnumsegments: {int32, int64} = DT_INT32")          \
      .Shape(SegmentSumShape)

// Rows of a table that indices name: the gradient of an embedding.
ExampleSumResult UnsortedSegmentSumExamples(ExampleSumContext& c) {
  ExampleOps& ops = c.ops();
  const Shape &values = c.input(0).shape(), &indices = c.input(1).shape();
  const auto at = c.axis(0);
  auto index_at = c.axis(1);
  if (!index_at && at && ops.layouts().Of(c.input(1)).none()) index_at = at;
  if (!at || !index_at || !(*at == *index_at) || at->axis >= indices.rank()) return c.Refuse();
  const int64_t positions = indices.elements() / ops.examples(), width = values.elements() / indices.elements();
  const ExampleSum::Rows rows{ops.ByExample(c.input(1), *index_at),
                              ops.Reshape(ops.ByExample(c.input(0), *at), {ops.examples(), positions, width})};
  RIVULET_RETURN_IF_ERROR(ops.scope().status());
  return RowSum(ops, c.sum().shape(), rows,
                [c, at](Output factors) { return c.With(0, c.ops().Weigh(c.input(0), *at, factors)); });
}
RIVULET_EXAMPLE_SUM("UnsortedSegmentSum", UnsortedSegmentSumExamples);

RIVULET_SEGMENT_OP("UnsortedSegmentSum")
    .Gradient(SegmentSumGradient)
    .Doc("output[i] is the sum of the slices of data whose segment id is i, in their order; negative ids are dropped.");
RIVULET_SEGMENT_OP("UnsortedSegmentProd")
    .Gradient(SegmentProdGradient)
    .Doc(
        "output[i] is the product of the slices of data whose segment id is i, 1 without any; negative ids are "
        "dropped.");
RIVULET_SEGMENT_OP("UnsortedSegmentMax")
    .Gradient(SegmentExtremeGradient)
    .Doc(
        "output[i] holds the largest elements of the slices of data whose segment id is i, the lowest finite value "
        "without any; negative ids are dropped.");
RIVULET_SEGMENT_OP("UnsortedSegmentMin")
    .Gradient(SegmentExtremeGradient)
    .Doc(
        "output[i] holds the smallest elements of the slices of data whose segment id is i, the highest finite value "
        "without any; negative ids are dropped.");

}  // namespace
}  // namespace rivulet
