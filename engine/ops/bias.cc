// A bias per channel.
#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

// The axis of channels: the last, or axis 1 with NCHW (the last, too, of a matrix).
int ChannelAxis(const std::string& data_format, int rank) { return data_format == "NCHW" && rank > 2 ? 1 : rank - 1; }

Status BiasAddShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(1, 1));
  Shape value = c.input(0);
  if (value.known_rank()) {
    if (value.rank() < 2) return InvalidArgument("value {} must have at least two axes", value.ToString());
    const int axis = ChannelAxis(c.attr<std::string>("data_format"), value.rank());
    if (value.dim(axis) == kUnknownDim) {
      value.set_dim(axis, bias.dim(0));
    } else if (bias.dim(0) != kUnknownDim && bias.dim(0) != value.dim(axis)) {
      return InvalidArgument("value {} has {} channels, but the bias has {}", value.ToString(), value.dim(axis),
                             bias.dim(0));
    }
  }
  c.set_output(0, std::move(value));
  return absl::OkStatus();
}

Status BiasAddGradShape(InferenceContext& c) {
  const Shape& backprop = c.input(0);
  if (!backprop.known_rank()) {
    c.set_output(0, Shape({kUnknownDim}));
    return absl::OkStatus();
  }
  if (backprop.rank() < 2) return InvalidArgument("out_backprop {} must have at least two axes", backprop.ToString());
  c.set_output(0, Shape({backprop.dim(ChannelAxis(c.attr<std::string>("data_format"), backprop.rank()))}));
  return absl::OkStatus();
}

Status BiasAddGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, g.grad());
  g.set_input_grad(1, ops.Op("BiasAddGrad", {g.grad()}, {{"data_format", g.node()->attr<std::string>("data_format")}}));
  return ops.status();
}

Status BiasAddGradGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output backprop = g.input(0);
  // A bias added to zeros is that bias, broadcast along the axis of channels.
  g.set_input_grad(0, ops.Op("BiasAdd", {ops.ZerosLike(backprop), g.grad()},
                             {{"data_format", g.node()->attr<std::string>("data_format")}}));
  return ops.status();
}

// Over all positions of each example.
ExampleSumResult BiasAddExamples(ExampleSumContext& c) {
  const Shape& x = c.input(0).shape();
  const auto at = c.axis(0);
  const int channels = ChannelAxis(c.node().attr<std::string>("data_format"), x.rank());
  if (!at || at->axis == channels) return c.Refuse();
  return DirectSum(c.ops(), c.sum().shape(), [c, at, x, channels] {
    // [before, examples, positions, channels, after], the axis of channels being behind that of examples.
    ExampleOps& ops = c.ops();
    const int64_t width = x.dim(channels);
    if (channels < at->axis) {
      int64_t before = 1, between = at->outer, after = at->inner;
      for (int axis = 0; axis < channels; ++axis) before *= x.dim(axis);
      for (int axis = channels + 1; axis < at->axis; ++axis) between *= x.dim(axis);
      for (int axis = at->axis + 1; axis < x.rank(); ++axis) after *= x.dim(axis);
      const Output apart = ops.Reshape(c.input(0), {before, width, between, ops.examples(), after});
      return ops.Op("Transpose", {ops.Sum(apart, {0, 2, 4}), ops.Ints({1, 0})});
    }
    int64_t before = at->outer, positions = at->inner, after = 1;
    for (int axis = 0; axis < at->axis; ++axis) before *= x.dim(axis);
    for (int axis = at->axis + 1; axis < channels; ++axis) positions *= x.dim(axis);
    for (int axis = channels + 1; axis < x.rank(); ++axis) after *= x.dim(axis);
    if (before == 1 && positions == 1 && after == 1) return ops.Reshape(c.input(0), {ops.examples(), width});
    return ops.Sum(ops.Reshape(c.input(0), {before, ops.examples(), positions, width, after}), {0, 2, 4});
  });
}
RIVULET_EXAMPLE_SUM("BiasAddGrad", BiasAddExamples);

RIVULET_OP("BiasAdd")
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape(BiasAddShape)
    .Gradient(BiasAddGradient)
    .Doc("value plus a bias for each channel.");

RIVULET_OP("BiasAddGrad")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape(BiasAddGradShape)
    .Gradient(BiasAddGradGradient)
    .Doc("The sum over all axes but the channels: the gradient of BiasAdd's bias.");

}  // namespace
}  // namespace rivulet
