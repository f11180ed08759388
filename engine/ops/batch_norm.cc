// Batch normalisation: Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal
// Covariate Shift" (2015).
#include "engine/ops/gradient_ops.h"
#include "engine/ops/normalization.h"

namespace rivulet {
namespace {

#define RIVULET_FLOATS "floattype"
#define RIVULET_DATA_FORMAT "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'"
#define RIVULET_ACTIVATION_MODE "activation_mode: {'Identity', 'Relu', 'Relu6'} = 'Identity'"

// Merges scale, offset and such (`names` in the order of the inputs from `first` on) with the channels of x.
StatusOr<Shape> Channels(InferenceContext& c, Shape& x, int first, std::initializer_list<std::string_view> names) {
  Shape channels({kUnknownDim});
  int axis = -1;
  if (x.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(axis, NormalizedChannelAxis(x, c.attr<std::string>("data_format")));
    channels.set_dim(0, x.dim(axis));
  }
  for (std::string_view name : names) RIVULET_RETURN_IF_ERROR(MergeChannels(c, first++, name, channels));
  if (axis >= 0) x.set_dim(axis, channels.dim(0));
  return channels;
}

Status BatchNormShape(InferenceContext& c) {
  Shape x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(Shape channels, Channels(c, x, 1, {"scale", "offset"}));
  // In training the averages so far may be left out, as empty vectors, where nothing of them is kept.
  const bool unused = c.attr<bool>("is_training") && c.attr<float>("exponential_avg_factor") == 1.0f;
  for (int i = 3; i < 5; ++i) {
    if (unused && c.input(i) == Shape({0})) continue;
    RIVULET_RETURN_IF_ERROR(MergeChannels(c, i, i == 3 ? "mean" : "variance", channels));
  }
  c.set_output(0, std::move(x));
  for (int i = 1; i < 5; ++i) c.set_output(i, channels);
  c.set_output(5, Shape({0}));
  return absl::OkStatus();
}

Status BatchNormGradShape(InferenceContext& c) {
  auto x = Shape::Merge(c.input(0), c.input(1));
  if (!x.ok())
    return InvalidArgument("y_backprop {} and x {} must have one shape", c.input(0).ToString(), c.input(1).ToString());
  RIVULET_ASSIGN_OR_RETURN(Shape channels, Channels(c, *x, 2, {"scale", "reserve_space_1", "reserve_space_2"}));
  if (c.num_inputs() > 6) RIVULET_RETURN_IF_ERROR(MergeChannels(c, 6, "offset", channels));
  c.set_output(0, *std::move(x));
  c.set_output(1, channels);
  c.set_output(2, channels);
  c.set_output(3, Shape{});
  c.set_output(4, Shape{});
  return absl::OkStatus();
}

Status BatchNormGradient(GradientContext& g) {
  for (int i = 1; i < 6; ++i)
    if (g.grad(i))
      return Unimplemented(
          "gradients through the statistics that a batch normalisation gives out; let the loss depend "
          "on its first output alone");
  GradientOps ops(g);
  const bool training = g.node()->attr<bool>("is_training");
  Node* backward = ops.AddNode("FusedBatchNormGradV3",
                               {g.grad(), g.input(0), g.input(1), training ? g.output(3) : g.input(3),
                                training ? g.output(4) : g.input(4), g.output(5)},
                               {{"epsilon", g.node()->attr<float>("epsilon")},
                                {"data_format", g.node()->attr<std::string>("data_format")},
                                {"is_training", training}});
  if (backward != nullptr)
    for (int i = 0; i < 3; ++i) g.set_input_grad(i, backward->output(i));
  return ops.status();
}

Status BatchNormGradGradient(GradientContext& g) {
  const Shape& shape = g.input(1).shape();
  if (!shape.known_rank()) return Unimplemented("second derivatives of a normalisation of unknown rank");
  RIVULET_ASSIGN_OR_RETURN(const int channel, NormalizedChannelAxis(shape, g.node()->attr<std::string>("data_format")));
  NormalizationGradient gradient;
  gradient.epsilon = g.node()->attr<float>("epsilon");
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis != channel) gradient.axes.push_back(axis);
  // [channels, 1, …]: broadcast to x.
  std::vector<int64_t> per_channel(static_cast<size_t>(shape.rank() - channel), 1);
  per_channel[0] = -1;
  return GradientOfGradient(g, [&](GradientOps& ops, Output dy, Output x, Output scale) {
    const auto spread = [&](Output value) { return ops.Op("Reshape", {value, ops.Ints(per_channel)}); };
    if (!g.node()->attr<bool>("is_training")) {
      gradient.mean = spread(g.input(3));
      gradient.variance = spread(g.input(4));
    }
    const Output factor = spread(scale);
    const std::vector<Output> whole = gradient(ops, dy, x, factor);
    const auto of_scale = [&](Output value) {
      return ops.Op("Reshape", {ops.SumTo(value, factor), ops.ShapeOf(scale)});
    };
    return std::vector{whole[0], of_scale(whole[1]), of_scale(whole[2])};
  });
}

RIVULET_OP("FusedBatchNormV3")
    .Input("x: T")
    .Input("scale: U")
    .Input("offset: U")
    .Input("mean: U")
    .Input("variance: U")
    .Output("y: T")
    .Output("batch_mean: U")
    .Output("batch_variance: U")
    .Output("reserve_space_1: U")
    .Output("reserve_space_2: U")
    .Output("reserve_space_3: U")
    .Attr("T: " RIVULET_FLOATS)
    .Attr("U: {float, double}")
    .Attr("epsilon: float = 0.0001")
    .Attr("exponential_avg_factor: float = 1.0")
    .Attr(RIVULET_DATA_FORMAT)
    .Attr("is_training: bool = true")
    .Shape(BatchNormShape)
    .Gradient(BatchNormGradient)
    .Doc(
        "Batch normalisation of each channel, (x - m) * scale / sqrt(v + epsilon) + offset. In training m and v are "
        "the batch's mean and biased variance, otherwise `mean` and `variance`, and those get no gradient. The outputs "
        "batch_mean and batch_variance are the new running averages. The mean is (1 - f) * mean + f * m with f = "
        "exponential_avg_factor, and the variance uses the unbiased estimate. Outside training they equal mean and "
        "variance. The outputs reserve_space_1 and 2 are m and v, for the gradient. The rank of x is at least 2, with "
        "channels on its last axis, or on its second with data_format NCHW.");

RIVULET_OP("FusedBatchNormGradV3")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: U")
    .Input("reserve_space_1: U")
    .Input("reserve_space_2: U")
    .Input("reserve_space_3: U")
    .Output("x_backprop: T")
    .Output("scale_backprop: U")
    .Output("offset_backprop: U")
    .Output("reserve_space_4: U")
    .Output("reserve_space_5: U")
    .Attr("T: " RIVULET_FLOATS)
    .Attr("U: {float, double}")
    .Attr("epsilon: float = 0.0001")
    .Attr(RIVULET_DATA_FORMAT)
    .Attr("is_training: bool = true")
    .Shape(BatchNormGradShape)
    .Gradient(BatchNormGradGradient)
    .Doc(
        "The gradients of FusedBatchNormV3 by x, scale and offset, from the mean and the variance that it normalised "
        "with; outside training these are constants. The last two outputs are 0.");

RIVULET_OP("_FusedBatchNormEx")
    .Input("x: T")
    .Input("scale: U")
    .Input("offset: U")
    .Input("mean: U")
    .Input("variance: U")
    .Output("y: T")
    .Output("batch_mean: U")
    .Output("batch_variance: U")
    .Output("reserve_space_1: U")
    .Output("reserve_space_2: U")
    .Output("reserve_space_3: U")
    .Attr("T: " RIVULET_FLOATS)
    .Attr("U: {float, double}")
    .Attr("epsilon: float = 0.0001")
    .Attr("exponential_avg_factor: float = 1.0")
    .Attr(RIVULET_DATA_FORMAT)
    .Attr("is_training: bool = true")
    .Attr(RIVULET_ACTIVATION_MODE)
    .Shape(BatchNormShape)
    .NotDifferentiable("passes make it after gradients have been built")
    .Doc("FusedBatchNormV3 and then an activation of y, bit for bit equal to the two in sequence.");

RIVULET_OP("_FusedBatchNormGradEx")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: U")
    .Input("reserve_space_1: U")
    .Input("reserve_space_2: U")
    .Input("reserve_space_3: U")
    .Input("offset: U")
    .Output("x_backprop: T")
    .Output("scale_backprop: U")
    .Output("offset_backprop: U")
    .Output("reserve_space_4: U")
    .Output("reserve_space_5: U")
    .Attr("T: " RIVULET_FLOATS)
    .Attr("U: {float, double}")
    .Attr("epsilon: float = 0.0001")
    .Attr(RIVULET_DATA_FORMAT)
    .Attr("is_training: bool = true")
    .Attr(RIVULET_ACTIVATION_MODE)
    .Shape(BatchNormGradShape)
    .NotDifferentiable("passes make it after gradients have been built")
    .Doc(
        "The gradients of _FusedBatchNormEx by x, scale and offset in training. They equal those of ReluGrad or "
        "Relu6Grad and FusedBatchNormGradV3 bit for bit. The activation's mask is recomputed from x, scale and "
        "offset.");

}  // namespace
}  // namespace rivulet
