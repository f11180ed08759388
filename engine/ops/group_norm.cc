// Group normalisation (Wu and He, 2018) and instance normalisation (Ulyanov, Vedaldi and Lempitsky, 2016). TensorFlow
// composes both; these ops are our own.
#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/normalization.h"

namespace rivulet {
namespace {

#define RIVULET_FLOATS "floattype"
#define RIVULET_DATA_FORMAT "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'"

// The shape of statistics, [examples, groups], and of scale and offset, [channels].
struct GroupNormShapes {
  Shape statistics, channels;
};

bool HasGroups(const InferenceContext& c) { return c.attrs().contains("num_groups"); }

StatusOr<GroupNormShapes> ShapesOf(InferenceContext& c, Shape& x, int first,
                                   std::initializer_list<std::string_view> names) {
  GroupNormShapes shapes{Shape({kUnknownDim, kUnknownDim}), Shape({kUnknownDim})};
  int axis = -1;
  if (x.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(axis, NormalizedChannelAxis(x, c.attr<std::string>("data_format")));
    shapes.channels.set_dim(0, x.dim(axis));
    shapes.statistics.set_dim(0, x.dim(0));
  }
  for (std::string_view name : names) RIVULET_RETURN_IF_ERROR(MergeChannels(c, first++, name, shapes.channels));
  const int64_t channels = shapes.channels.dim(0);
  if (axis >= 0) x.set_dim(axis, channels);
  const int64_t groups = HasGroups(c) ? c.attr<int64_t>("num_groups") : channels;
  if (groups > 0 && channels != kUnknownDim && channels % groups != 0)
    return InvalidArgument("{} channels cannot be divided into num_groups = {} groups", channels, groups);
  shapes.statistics.set_dim(1, groups);
  return shapes;
}

Status GroupNormShape(InferenceContext& c) {
  Shape x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const GroupNormShapes shapes, ShapesOf(c, x, 1, {"scale", "offset"}));
  c.set_output(0, std::move(x));
  c.set_output(1, shapes.statistics);
  c.set_output(2, shapes.statistics);
  return absl::OkStatus();
}

Status GroupNormGradShape(InferenceContext& c) {
  auto x = Shape::Merge(c.input(0), c.input(1));
  if (!x.ok())
    return InvalidArgument("y_backprop {} and x {} must have one shape", c.input(0).ToString(), c.input(1).ToString());
  RIVULET_ASSIGN_OR_RETURN(const GroupNormShapes shapes, ShapesOf(c, *x, 2, {"scale"}));
  for (int i = 3; i < 5; ++i)
    if (!Shape::Compatible(c.input(i), shapes.statistics))
      return InvalidArgument("{} is {}, but one value per example and group is needed: {}",
                             i == 3 ? "mean" : "inverse_deviation", c.input(i).ToString(),
                             shapes.statistics.ToString());
  c.set_output(0, *std::move(x));
  c.set_output(1, shapes.channels);
  c.set_output(2, shapes.channels);
  return absl::OkStatus();
}

Status GroupNormGradient(GradientContext& g) {
  if (g.grad(1) || g.grad(2))
    return Unimplemented(
        "gradients through the statistics that a normalisation gives out; let the loss depend on its "
        "first output alone");
  GradientOps ops(g);
  AttrMap attrs = {{"data_format", g.node()->attr<std::string>("data_format")},
                   {"epsilon", g.node()->attr<float>("epsilon")}};
  if (g.node()->HasAttr("num_groups")) attrs["num_groups"] = g.node()->attr<int64_t>("num_groups");
  Node* backward = ops.AddNode(std::string(g.node()->type()) + "Grad",
                               {g.grad(), g.input(0), g.input(1), g.output(1), g.output(2)}, std::move(attrs));
  if (backward != nullptr)
    for (int i = 0; i < 3; ++i) g.set_input_grad(i, backward->output(i));
  return ops.status();
}

// The groups are made an axis: [examples, …, groups, size] or [examples, groups, size, …].
Status GroupNormGradGradient(GradientContext& g) {
  const Shape& shape = g.input(1).shape();
  if (!shape.known_rank()) return Unimplemented("second derivatives of a normalisation of unknown rank");
  const int rank = shape.rank();
  const bool last = g.node()->attr<std::string>("data_format").ends_with('C');
  const bool instance = !g.node()->HasAttr("num_groups");
  NormalizationGradient gradient;
  gradient.epsilon = g.node()->attr<float>("epsilon");
  // Where a group is a channel, its size is 1 and the channels are the groups.
  const int64_t groups = instance ? -1 : g.node()->attr<int64_t>("num_groups"), size = instance ? 1 : -1;
  if (last) {
    for (int axis = 1; axis < rank - 1; ++axis) gradient.axes.push_back(axis);
    gradient.axes.push_back(rank);
  } else {
    for (int axis = 2; axis <= rank; ++axis) gradient.axes.push_back(axis);
  }
  return GradientOfGradient(g, [&](GradientOps& ops, Output dy, Output x, Output scale) {
    const auto part = [&](int begin, int count) {
      return ops.Op("Slice", {ops.ShapeOf(x), ops.Ints({begin}), ops.Ints({count})});
    };
    const Output split = ops.Ints({groups, size});
    const Output grouped = last ? ops.Op("ConcatV2", {part(0, rank - 1), split, ops.Int(0)})
                                : ops.Op("ConcatV2", {part(0, 1), split, part(2, rank - 2), ops.Int(0)});
    std::vector<int64_t> per_channel = {groups, size};
    if (!last) per_channel.resize(static_cast<size_t>(rank), 1);
    const Output factor = ops.Op("Reshape", {scale, ops.Ints(per_channel)});
    const std::vector<Output> whole =
        gradient(ops, ops.Op("Reshape", {dy, grouped}), ops.Op("Reshape", {x, grouped}), factor);
    const auto of_scale = [&](Output value) {
      return ops.Op("Reshape", {ops.SumTo(value, factor), ops.ShapeOf(scale)});
    };
    return std::vector{ops.Op("Reshape", {whole[0], ops.ShapeOf(x)}), of_scale(whole[1]), of_scale(whole[2])};
  });
}

// Scale and offset: sums over the positions of each example. x is [examples, positions, groups, size], or with channels
// first [examples, groups, size, positions].
ExampleSumResult GroupNormExamples(ExampleSumContext& c) {
  const Shape x = c.input(1).shape();
  const auto at = c.axis(0), x_at = c.axis(1);
  if (!at || !x_at || !(*at == ExampleAxis{}) || !(*x_at == ExampleAxis{}) || c.sum().port == 0) return c.Refuse();
  return DirectSum(c.ops(), c.sum().shape(), [c, x] {
    ExampleOps& ops = c.ops();
    const bool last = c.node().attr<std::string>("data_format").ends_with('C');
    const int64_t channels = c.sum().shape().elements(), groups = c.input(3).shape().dim(1), size = channels / groups;
    const int64_t positions = x.elements() / ops.examples() / channels;
    const std::vector<int64_t> apart = last ? std::vector<int64_t>{ops.examples(), positions, groups, size}
                                            : std::vector<int64_t>{ops.examples(), groups, size, positions};
    Output y = ops.Reshape(c.input(0), apart);
    if (c.sum().port == 1) {
      const std::vector<int64_t> of_groups = last ? std::vector<int64_t>{ops.examples(), 1, groups, 1}
                                                  : std::vector<int64_t>{ops.examples(), groups, 1, 1};
      const Output centered = ops.Op("Sub", {ops.Reshape(c.input(1), apart), ops.Reshape(c.input(3), of_groups)});
      y = ops.Mul(y, ops.Mul(centered, ops.Reshape(c.input(4), of_groups)));
    }
    return ops.Reshape(ops.Sum(y, {last ? 1 : 3}), {ops.examples(), channels});
  });
}
RIVULET_EXAMPLE_SUM("GroupNormGrad", GroupNormExamples);
RIVULET_EXAMPLE_SUM("InstanceNormGrad", GroupNormExamples);

#define RIVULET_NORM(name)              \
  RIVULET_OP(name)                      \
      .Input("x: T")                    \
      .Input("scale: T")                \
      .Input("offset: T")               \
      .Output("y: T")                   \
      .Output("mean: T")                \
      .Output("inverse_deviation: T")   \
      .Attr("T: " RIVULET_FLOATS)       \
      .Attr("epsilon: float = 0.00001") \
      .Attr(RIVULET_DATA_FORMAT)        \
      .Shape(GroupNormShape)            \
      .Gradient(GroupNormGradient)

#define RIVULET_NORM_GRAD(name)         \
  RIVULET_OP(name)                      \
      .Input("y_backprop: T")           \
      .Input("x: T")                    \
      .Input("scale: T")                \
      .Input("mean: T")                 \
      .Input("inverse_deviation: T")    \
      .Output("x_backprop: T")          \
      .Output("scale_backprop: T")      \
      .Output("offset_backprop: T")     \
      .Attr("T: " RIVULET_FLOATS)       \
      .Attr("epsilon: float = 0.00001") \
      .Attr(RIVULET_DATA_FORMAT)        \
      .Shape(GroupNormGradShape)        \
      .Gradient(GroupNormGradGradient)

RIVULET_NORM("GroupNorm")
    .Attr("num_groups: int >= 1")
    .Doc(
        "Group normalisation, (x - m) / sqrt(v + epsilon) * scale + offset. The mean m and the variance v are those of "
        "each example's group of neighbouring channels, over all pixels. Each channel has its own scale and offset. "
        "Also gives m and 1 / sqrt(v + epsilon) as [examples, groups]. The rank of x is at least 2, with channels on "
        "its last axis, or on its second with data_format NCHW.");
RIVULET_NORM_GRAD("GroupNormGrad")
    .Attr("num_groups: int >= 1")
    .Doc("The gradients of GroupNorm by x, scale and offset, from the statistics that it gave.");

RIVULET_NORM("InstanceNorm").Doc("GroupNorm with a group for each channel; the statistics are [examples, channels].");
RIVULET_NORM_GRAD("InstanceNormGrad")
    .Doc("The gradients of InstanceNorm by x, scale and offset, from the statistics that it gave.");

}  // namespace
}  // namespace rivulet
