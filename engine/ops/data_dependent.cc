// Ops of which a size of an output follows from values. Sessions run them (dataflow/dynamic_shapes); a program cannot,
// because it is compiled for known shapes. where.cc has one that a program can run when it knows the input.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckVector(const InferenceContext& c, int i) { return c.WithRank(i, 1).status(); }

Status UniqueShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 0));
  c.set_output(0, Shape({kUnknownDim}));
  c.set_output(1, c.input(0));
  return absl::OkStatus();
}

Status UniqueAlongShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const auto axes, KnownIntegers(c, 1));
  if (axes && !(axes->empty() || (axes->size() == 1 && axes->front() == 0)))
    return Unimplemented("unique slices along axis {}; elements of a vector are", axes->front());
  return UniqueShape(c);
}

Status UniqueWithCountsShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(UniqueShape(c));
  c.set_output(2, Shape({kUnknownDim}));
  return absl::OkStatus();
}

Status ListDiffShape(InferenceContext& c) {
  for (int i = 0; i < 2; ++i) {
    RIVULET_RETURN_IF_ERROR(CheckVector(c, i));
    c.set_output(i, Shape({kUnknownDim}));
  }
  return absl::OkStatus();
}

Status PartitionShape(InferenceContext& c) {
  const Shape &data = c.input(0), &partitions = c.input(1);
  Shape part = Shape::UnknownRank();
  if (data.known_rank() && partitions.known_rank()) {
    if (partitions.rank() > data.rank())
      return InvalidArgument("partitions {} has more axes than data {}", partitions.ToString(), data.ToString());
    std::vector<int64_t> dims = {kUnknownDim};
    dims.insert(dims.end(), data.dims().begin() + partitions.rank(), data.dims().end());
    part = Shape(std::move(dims));
  }
  for (int i = 0; i < static_cast<int>(c.attr<int64_t>("num_partitions")); ++i) c.set_output(i, part);
  return absl::OkStatus();
}

// The rows of each partition's gradient go back to where they came from.
Status PartitionGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output data = g.input(0), partitions = g.input(1);
  const int64_t count = g.node()->attr<int64_t>("num_partitions");
  const Output size = ops.Op("Size", {partitions});
  const Output order = ops.Op("Reshape", {ops.Op("Range", {ops.Int(0), size, ops.Int(1)}), ops.ShapeOf(partitions)});
  Node* places = ops.AddNode("DynamicPartition", {order, partitions}, {{"num_partitions", count}});
  if (places == nullptr) return ops.status();
  std::vector<Output> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back(places->output(i));
  for (int i = 0; i < count; ++i) inputs.push_back(g.grad(i) ? g.grad(i) : ops.ZerosLike(g.output(i)));
  const Output rows = ops.Op("DynamicStitch", inputs);
  g.set_input_grad(0, ops.Op("Reshape", {rows, ops.ShapeOf(data)}));
  return ops.status();
}

Status SuppressionShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(0, 2).status());
  RIVULET_RETURN_IF_ERROR(CheckVector(c, 1));
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2, 3, 4}));
  c.set_output(0, Shape({kUnknownDim}));
  return absl::OkStatus();
}

Status CountedSuppressionShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(SuppressionShape(c));
  c.set_output(1, Shape{});
  return absl::OkStatus();
}

#define RIVULET_LIST_TYPE \
  "{half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, string}"
#define RIVULET_CHOSEN_ELEMENTS "its outputs are chosen by equality"

RIVULET_OP("Unique")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: " RIVULET_LIST_TYPE)
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .NotDifferentiable(RIVULET_CHOSEN_ELEMENTS)
    .Doc("The elements of a vector once each, in the order in which they first come, and where each is in y.");

RIVULET_OP("UniqueV2")
    .Input("x: T")
    .Input("axis: Taxis")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: " RIVULET_LIST_TYPE)
    .Attr("Taxis: {int32, int64} = DT_INT64")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueAlongShape)
    .NotDifferentiable(RIVULET_CHOSEN_ELEMENTS)
    .Doc("As Unique; axis is empty or 0.");

RIVULET_OP("UniqueWithCounts")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: " RIVULET_LIST_TYPE)
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueWithCountsShape)
    .NotDifferentiable(RIVULET_CHOSEN_ELEMENTS)
    .Doc("As Unique, and how often each element is in x.");

RIVULET_OP("ListDiff")
    .Input("x: T")
    .Input("y: T")
    .Output("out: T")
    .Output("idx: out_idx")
    .Attr("T: " RIVULET_LIST_TYPE)
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(ListDiffShape)
    .NotDifferentiable(RIVULET_CHOSEN_ELEMENTS)
    .Doc("The elements of x that are not in y, in order, and where they are in x.");

RIVULET_OP("DynamicPartition")
    .Input("data: T")
    .Input("partitions: int32")
    .Output("outputs: num_partitions * T")
    .Attr("num_partitions: int >= 1")
    .Attr("T: " RIVULET_LIST_TYPE)
    .Shape(PartitionShape)
    .Gradient(PartitionGradient)
    .Doc("The rows of data sent to num_partitions tensors, each where partitions says, in order.");

RIVULET_OP("NonMaxSuppressionV3")
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T_threshold")
    .Input("score_threshold: T_threshold")
    .Output("selected_indices: int32")
    .Attr("T: {float} = DT_FLOAT")
    .Attr("T_threshold: {float} = DT_FLOAT")
    .Shape(SuppressionShape)
    .NotDifferentiable("its output is an index")
    .Doc("The boxes, best score first, that overlap no better one by more than iou_threshold.");

RIVULET_OP("NonMaxSuppressionV4")
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T_threshold")
    .Input("score_threshold: T_threshold")
    .Output("selected_indices: int32")
    .Output("valid_outputs: int32")
    .Attr("T: {float} = DT_FLOAT")
    .Attr("T_threshold: {float} = DT_FLOAT")
    .Attr("pad_to_max_output_size: bool = false")
    .Shape(CountedSuppressionShape)
    .NotDifferentiable("its outputs are an index and a count")
    .Doc("As NonMaxSuppressionV3, and how many there are; padded with 0 where that is asked for.");

}  // namespace
}  // namespace rivulet
