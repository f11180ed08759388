// Softmax and the cross-entropies that take logits.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status AtLeastVector(InferenceContext& c) {
  if (c.input(0).known_rank() && c.input(0).rank() < 1) return InvalidArgument("logits must have at least one axis");
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Output SumOverClasses(GradientOps& ops, Output x) { return ops.Sum(x, ops.Ints({-1}), /*keep_dims=*/true); }

// softmax · (v - sum(softmax · v)): the product of softmax's Jacobian with v.
Output TimesJacobian(GradientOps& ops, Output softmax, Output v) {
  return ops.Mul(ops.Sub(v, SumOverClasses(ops, ops.Mul(v, softmax))), softmax);
}

Status SoftmaxGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, TimesJacobian(ops, g.output(0), g.grad()));
  return ops.status();
}

Status LogSoftmaxGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Sub(g.grad(), ops.Mul(SumOverClasses(ops, g.grad()), ops.Op("Exp", {g.output(0)}))));
  return ops.status();
}

// Both cross-entropies have the outputs loss [batch] and backprop [batch, classes] = softmax - labels. The second's
// gradient appears only in second derivatives. The gradient of `features`, which are the input in backprop's shape.
Output FeaturesGradient(GradientContext& g, GradientOps& ops, Output features) {
  Output features_grad;
  if (g.grad(0)) features_grad = ops.Mul(ops.Op("ExpandDims", {g.grad(0), ops.Int(-1)}), g.output(1));
  if (g.grad(1)) {
    const Output second = TimesJacobian(ops, ops.Op("Softmax", {features}), g.grad(1));
    features_grad = features_grad ? ops.Add(features_grad, second) : second;
  }
  return features_grad;
}

Status CrossEntropyGradient(GradientContext& g) {
  GradientOps ops(g);
  // Features and labels may be broadcast against each other.
  const Output features = ops.BroadcastLike(g.input(0), g.output(1));
  g.set_input_grad(0, ops.SumTo(FeaturesGradient(g, ops, features), g.input(0)));
  Output labels_grad;
  if (g.grad(0))
    labels_grad = ops.Neg(ops.Mul(ops.Op("ExpandDims", {g.grad(0), ops.Int(-1)}), ops.Op("LogSoftmax", {features})));
  if (g.grad(1)) labels_grad = labels_grad ? ops.Sub(labels_grad, g.grad(1)) : ops.Neg(g.grad(1));
  g.set_input_grad(1, ops.SumTo(labels_grad, g.input(1)));
  return ops.status();
}

Status SparseCrossEntropyGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, FeaturesGradient(g, ops, g.input(0)));
  return ops.status();
}

Status CrossEntropyShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape features, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape labels, c.WithRank(1, 2));
  const auto both = Shape::Broadcast(features, labels);
  if (!both.ok())
    return InvalidArgument("features {} and labels {} must have one shape, or be broadcast to one", features.ToString(),
                           labels.ToString());
  c.set_output(0, Shape({both->dim(0)}));
  c.set_output(1, *both);
  return absl::OkStatus();
}

Status SparseCrossEntropyShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape features, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape labels, c.WithRank(1, 1));
  if (features.dim(0) != kUnknownDim && labels.dim(0) != kUnknownDim && features.dim(0) != labels.dim(0))
    return InvalidArgument("features {} and labels {} differ in batch size: {} and {}", features.ToString(),
                           labels.ToString(), features.dim(0), labels.dim(0));
  if (features.dim(0) == kUnknownDim) features.set_dim(0, labels.dim(0));
  c.set_output(0, Shape({features.dim(0)}));
  c.set_output(1, features);
  return absl::OkStatus();
}

RIVULET_OP("Softmax")
    .Input("logits: T")
    .Output("softmax: T")
    .Attr("T: floattype")
    .Shape(AtLeastVector)
    .Gradient(SoftmaxGradient)
    .Doc("exp(logits) / sum(exp(logits)) along the last axis.");

RIVULET_OP("LogSoftmax")
    .Input("logits: T")
    .Output("logsoftmax: T")
    .Attr("T: floattype")
    .Shape(AtLeastVector)
    .Gradient(LogSoftmaxGradient)
    .Doc("logits - log(sum(exp(logits))) along the last axis.");

RIVULET_OP("SoftmaxCrossEntropyWithLogits")
    .Input("features: T")
    .Input("labels: T")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr("T: floattype")
    .Shape(CrossEntropyShape)
    .Gradient(CrossEntropyGradient)
    .Doc(
        "The cross-entropy of each row of labels (probabilities) with softmax(features), and softmax(features) - "
        "labels. The two are broadcast together.");

RIVULET_OP("SparseSoftmaxCrossEntropyWithLogits")
    .Input("features: T")
    .Input("labels: Tlabels")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr("T: floattype")
    .Attr("Tlabels: {int32, int64} = DT_INT64")
    .Shape(SparseCrossEntropyShape)
    .Gradient(SparseCrossEntropyGradient)
    .Doc("The cross-entropy of each label (a class) with softmax(features), and softmax(features) - onehot(labels).");

}  // namespace
}  // namespace rivulet
