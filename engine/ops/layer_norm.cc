// Layer normalisation (Ba, Kiros and Hinton, 2016) and its form without a mean (Zhang and Sennrich, "Root Mean Square
// Layer Normalization", 2019). TensorFlow composes both; these ops are our own.
#include "engine/gradients/example_sums.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/normalization.h"

namespace rivulet {
namespace {

#define RIVULET_FLOATS "floattype"

// x's axes from begin_norm_axis on, and its shape with 1 in their place.
struct LayerNormShapes {
  Shape normalized = Shape::UnknownRank(), statistics = Shape::UnknownRank();
};

StatusOr<LayerNormShapes> ShapesOf(const InferenceContext& c, const Shape& x) {
  LayerNormShapes shapes;
  if (!x.known_rank()) return shapes;
  RIVULET_ASSIGN_OR_RETURN(const int begin,
                           NormalizeAxis(c.attr<int64_t>("begin_norm_axis"), x.rank(), "begin_norm_axis"));
  shapes.normalized = Shape(std::vector<int64_t>(x.dims().begin() + begin, x.dims().end()));
  shapes.statistics = x;
  for (int axis = begin; axis < x.rank(); ++axis) shapes.statistics.set_dim(axis, 1);
  return shapes;
}

Status MergeNormalized(const InferenceContext& c, int i, std::string_view name, Shape& normalized) {
  auto merged = Shape::Merge(normalized, c.input(i));
  if (!merged.ok())
    return InvalidArgument("{} is {}, but x has {} from begin_norm_axis = {} on", name, c.input(i).ToString(),
                           normalized.ToString(), c.attr<int64_t>("begin_norm_axis"));
  normalized = *std::move(merged);
  return absl::OkStatus();
}

Status LayerNormShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(LayerNormShapes shapes, ShapesOf(c, c.input(0)));
  RIVULET_RETURN_IF_ERROR(MergeNormalized(c, 1, "scale", shapes.normalized));
  const bool centered = c.num_inputs() == 3;
  if (centered) RIVULET_RETURN_IF_ERROR(MergeNormalized(c, 2, "offset", shapes.normalized));
  c.set_output(0, c.input(0));
  c.set_output(1, shapes.statistics);
  if (centered) c.set_output(2, shapes.statistics);
  return absl::OkStatus();
}

Status LayerNormGradShape(InferenceContext& c) {
  auto x = Shape::Merge(c.input(0), c.input(1));
  if (!x.ok())
    return InvalidArgument("y_backprop {} and x {} must have one shape", c.input(0).ToString(), c.input(1).ToString());
  RIVULET_ASSIGN_OR_RETURN(LayerNormShapes shapes, ShapesOf(c, *x));
  RIVULET_RETURN_IF_ERROR(MergeNormalized(c, 2, "scale", shapes.normalized));
  for (int i = 3; i < c.num_inputs(); ++i)
    if (!Shape::Compatible(c.input(i), shapes.statistics))
      return InvalidArgument("input {} is {}, but the statistics of x are {}", i, c.input(i).ToString(),
                             shapes.statistics.ToString());
  c.set_output(0, *std::move(x));
  c.set_output(1, shapes.normalized);
  if (c.num_inputs() == 5) c.set_output(2, shapes.normalized);
  return absl::OkStatus();
}

Status LayerNormGradient(GradientContext& g) {
  const bool centered = g.node()->type() == "LayerNorm";
  if (g.grad(1) || (centered && g.grad(2)))
    return Unimplemented(
        "gradients through the statistics that a normalisation gives out; let the loss depend on its "
        "first output alone");
  GradientOps ops(g);
  std::vector<Output> inputs = {g.grad(), g.input(0), g.input(1), g.output(1)};
  if (centered) inputs.push_back(g.output(2));
  Node* backward = ops.AddNode(
      std::string(g.node()->type()) + "Grad", std::move(inputs),
      {{"begin_norm_axis", g.node()->attr<int64_t>("begin_norm_axis")}, {"epsilon", g.node()->attr<float>("epsilon")}});
  if (backward != nullptr)
    for (int i = 0; i < (centered ? 3 : 2); ++i) g.set_input_grad(i, backward->output(i));
  return ops.status();
}

Status LayerNormGradGradient(GradientContext& g) {
  const Shape& shape = g.input(1).shape();
  if (!shape.known_rank()) return Unimplemented("second derivatives of a normalisation of unknown rank");
  NormalizationGradient gradient;
  gradient.centered = g.node()->type() == "LayerNormGrad";
  gradient.epsilon = g.node()->attr<float>("epsilon");
  RIVULET_ASSIGN_OR_RETURN(const int begin,
                           NormalizeAxis(g.node()->attr<int64_t>("begin_norm_axis"), shape.rank(), "begin_norm_axis"));
  for (int axis = begin; axis < shape.rank(); ++axis) gradient.axes.push_back(axis);
  return GradientOfGradient(g, [&](GradientOps& ops, Output dy, Output x, Output scale) {
    const std::vector<Output> whole = gradient(ops, dy, x, scale);
    return std::vector{whole[0], ops.SumTo(whole[1], scale), ops.SumTo(whole[2], scale)};
  });
}

// Scale and offset: sums over the positions of each example.
ExampleSumResult LayerNormExamples(ExampleSumContext& c) {
  const bool centered = c.node().type() == "LayerNormGrad";
  const auto at = c.axis(0);
  const auto x_at = c.axis(1);
  if (!at || !x_at || !(*at == *x_at) || c.sum().port == 0) return c.Refuse();
  return DirectSum(c.ops(), c.sum().shape(), [c, at, centered] {
    ExampleOps& ops = c.ops();
    Output y = c.input(0);
    if (c.sum().port == 1) {
      Output normalized = c.input(1);
      if (centered) normalized = ops.Op("Sub", {normalized, c.input(3)});
      y = ops.Mul(y, ops.Mul(normalized, c.input(centered ? 4 : 3)));
    }
    const int64_t width = c.sum().shape().elements();
    const Output each = ops.ByExample(y, *at);
    return ops.Sum(ops.Reshape(each, {ops.examples(), each.shape().dim(1) / width, width}), {1});
  });
}
RIVULET_EXAMPLE_SUM("LayerNormGrad", LayerNormExamples);
RIVULET_EXAMPLE_SUM("RmsNormGrad", LayerNormExamples);

#define RIVULET_NORM_ATTRS Attr("T: " RIVULET_FLOATS).Attr("epsilon: float = 0.00001").Attr("begin_norm_axis: int = -1")

RIVULET_OP("LayerNorm")
    .Input("x: T")
    .Input("scale: T")
    .Input("offset: T")
    .Output("y: T")
    .Output("mean: T")
    .Output("inverse_deviation: T")
    .RIVULET_NORM_ATTRS.Shape(LayerNormShape)
    .Gradient(LayerNormGradient)
    .Doc(
        "(x - m) / sqrt(v + epsilon) * scale + offset, where m and v are the mean and the variance over the axes from "
        "begin_norm_axis on, whose shape scale and offset have. Also gives m and 1 / sqrt(v + epsilon), with 1 in the "
        "place of those axes.");

RIVULET_OP("LayerNormGrad")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: T")
    .Input("mean: T")
    .Input("inverse_deviation: T")
    .Output("x_backprop: T")
    .Output("scale_backprop: T")
    .Output("offset_backprop: T")
    .RIVULET_NORM_ATTRS.Shape(LayerNormGradShape)
    .Gradient(LayerNormGradGradient)
    .Doc("The gradients of LayerNorm by x, scale and offset, from the statistics that it gave.");

RIVULET_OP("RmsNorm")
    .Input("x: T")
    .Input("scale: T")
    .Output("y: T")
    .Output("inverse_rms: T")
    .RIVULET_NORM_ATTRS.Shape(LayerNormShape)
    .Gradient(LayerNormGradient)
    .Doc(
        "x / sqrt(mean(x^2) + epsilon) * scale, the mean being over the axes from begin_norm_axis on, whose shape "
        "scale has. Also gives 1 / sqrt(mean(x^2) + epsilon).");

RIVULET_OP("RmsNormGrad")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: T")
    .Input("inverse_rms: T")
    .Output("x_backprop: T")
    .Output("scale_backprop: T")
    .RIVULET_NORM_ATTRS.Shape(LayerNormGradShape)
    .Gradient(LayerNormGradGradient)
    .Doc("The gradients of RmsNorm by x and scale, from its second output.");

}  // namespace
}  // namespace rivulet
