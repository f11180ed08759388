// Scaled dot-product attention, an op that TensorFlow lacks; Vaswani et al., "Attention is all you need", NeurIPS 2017,
// equation 1. engine/layers/attention.h builds it for heads that are adjacent in memory.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckDim(int64_t a, int64_t b, std::string_view what) {
  if (a == kUnknownDim || b == kUnknownDim || a == b) return absl::OkStatus();
  return InvalidArgument("{} differ: {} and {}", what, a, b);
}

int64_t Known(int64_t a, int64_t b) { return a != kUnknownDim ? a : b; }

// Checks query, key, value and mask, which are inputs 0 to 3, and gives the output's shape.
StatusOr<Shape> CheckAttention(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape query, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape key, c.WithRank(1, 4));
  RIVULET_ASSIGN_OR_RETURN(const Shape value, c.WithRank(2, 4));
  RIVULET_RETURN_IF_ERROR(CheckDim(query.dim(0), key.dim(0), "the batches of query and key"));
  RIVULET_RETURN_IF_ERROR(CheckDim(query.dim(0), value.dim(0), "the batches of query and value"));
  RIVULET_RETURN_IF_ERROR(CheckDim(query.dim(3), key.dim(3), "the depths of query and key"));
  RIVULET_RETURN_IF_ERROR(CheckDim(key.dim(1), value.dim(1), "the heads of key and value"));
  RIVULET_RETURN_IF_ERROR(CheckDim(key.dim(2), value.dim(2), "the lengths of key and value"));
  const int64_t heads = query.dim(1), shared = Known(key.dim(1), value.dim(1));
  if (heads != kUnknownDim && shared != kUnknownDim && (shared == 0 ? heads != 0 : heads % shared != 0))
    return InvalidArgument("{} heads of query cannot share {} heads of key and value evenly", heads, shared);
  const int64_t batch = Known(query.dim(0), Known(key.dim(0), value.dim(0)));
  const Shape scores = {batch, heads, query.dim(2), Known(key.dim(2), value.dim(2))};
  const Shape& mask = c.input(3);
  if (!IsLeftOut(mask)) {
    if (c.input_dtype(3) != DType::kBool && c.input_dtype(3) != c.input_dtype(0))
      return InvalidArgument("a mask is bool or has query's type {}, not {}", Name(c.input_dtype(0)),
                             Name(c.input_dtype(3)));
    const auto both = Shape::Broadcast(mask, scores);
    if (!both.ok() || (mask.known_rank() && mask.rank() > 4) || !Shape::Compatible(*both, scores))
      return InvalidArgument("mask {} does not broadcast to the scores {}", mask.ToString(), scores.ToString());
  }
  if (c.attr<float>("softcap") < 0)
    return InvalidArgument("softcap is {}; it must be positive, or 0 for none", c.attr<float>("softcap"));
  return Shape{batch, heads, query.dim(2), value.dim(3)};
}

Status AttentionShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape output, CheckAttention(c));
  c.set_output(0, output);
  c.set_output(1, Shape{output.dim(0), output.dim(1), output.dim(2)});
  return absl::OkStatus();
}

Status AttentionGradShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape output, CheckAttention(c));
  for (int i : {4, 6})
    if (!Shape::Compatible(c.input(i), output))
      return InvalidArgument("{} {} does not have the output's shape {}", i == 4 ? "output" : "output_grad",
                             c.input(i).ToString(), output.ToString());
  const Shape sums = {output.dim(0), output.dim(1), output.dim(2)};
  if (!Shape::Compatible(c.input(5), sums))
    return InvalidArgument("log_sum_exp {} does not have the shape {}", c.input(5).ToString(), sums.ToString());
  for (int i = 0; i < 3; ++i) c.set_output(i, c.input(i));
  c.set_output(3, c.input_dtype(3) == DType::kBool ? Shape{0} : c.input(3));
  return absl::OkStatus();
}

Status AttentionGradient(GradientContext& g) {
  if (g.grad(1)) return Unimplemented("log_sum_exp is for the backward pass; a loss cannot depend on it");
  GradientOps ops(g);
  AttrMap attrs;
  for (const char* name : {"causal", "causal_offset", "scale", "softcap"}) attrs[name] = g.node()->attrs().at(name);
  Node* grad = ops.AddNode("ScaledDotProductAttentionGrad",
                           {g.input(0), g.input(1), g.input(2), g.input(3), g.output(0), g.output(1), g.grad(0)},
                           std::move(attrs));
  if (grad == nullptr) return ops.status();
  for (int i = 0; i < 3; ++i) g.set_input_grad(i, grad->output(i));
  if (g.input(3).dtype() != DType::kBool) g.set_input_grad(3, grad->output(3));
  return ops.status();
}

#define RIVULET_ATTENTION_ATTRS                                       \
  Attr("T: floattype")                                                \
      .Attr("Tmask: {bool, half, bfloat16, float, double} = DT_BOOL") \
      .Attr("causal: bool = false")                                   \
      .Attr("causal_offset: int = 0")                                 \
      .Attr("scale: float = 0")                                       \
      .Attr("softcap: float = 0")

RIVULET_OP("ScaledDotProductAttention")
    .Input("query: T")
    .Input("key: T")
    .Input("value: T")
    .Input("mask: Tmask")
    .Output("output: T")
    .Output("log_sum_exp: T")
    .RIVULET_ATTENTION_ATTRS.Shape(AttentionShape)
    .Gradient(AttentionGradient)
    .Doc(
        "softmax(scale · query · keyᵀ + mask) · value for query [batch, heads, time, depth], key [batch, shared, keys, "
        "depth] and value [batch, shared, keys, width]. Consecutive heads / shared heads of query share one head of "
        "key and value. A bool mask selects the visible keys, another is added. It broadcasts to [batch, heads, time, "
        "keys]; a vector without elements is no mask. With `causal`, query t sees keys up to t + causal_offset. scale "
        "0 stands for 1 / sqrt(depth). softcap bounds scores before the mask: softcap · tanh(score / softcap). A query "
        "that sees no key gives zeros. The scores of a few rows exist at a time. Not an op of TensorFlow.");

RIVULET_OP("ScaledDotProductAttentionGrad")
    .Input("query: T")
    .Input("key: T")
    .Input("value: T")
    .Input("mask: Tmask")
    .Input("output: T")
    .Input("log_sum_exp: T")
    .Input("output_grad: T")
    .Output("query_grad: T")
    .Output("key_grad: T")
    .Output("value_grad: T")
    .Output("mask_grad: T")
    .RIVULET_ATTENTION_ATTRS.Shape(AttentionGradShape)
    .NotDifferentiable("second derivatives of attention are not provided")
    .Doc(
        "The backward pass of ScaledDotProductAttention; mask_grad is empty for a bool mask. Not an op of TensorFlow.");

}  // namespace
}  // namespace rivulet
