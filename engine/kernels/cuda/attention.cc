// Scaled dot-product attention and its backward pass, as products of all heads at once and what is done to the rows of
// scores between them. Heads that share keys lie next to each other, so that they are rows of one product.
#include "engine/kernels/cuda/attention.h"

#include <algorithm>
#include <cmath>

#include "engine/kernels/cuda/product_launch.h"

namespace rivulet::gpu {
namespace {

struct Attention {
  AttentionArguments rows;
  DType dtype;
  int64_t pairs;    // (example, heads that share keys)
  int64_t queries;  // of a pair
  int64_t keys, depth, width;

  // [queries, columns] = a · b of every pair; turned: a is [depth, queries]. Sizes are those of one pair.
  Status PutPairs(const GpuContext& c, ProductArguments p, LaneSpan<const void> a, LaneSpan<const void> b,
                  LaneSpan<void> to) const {
    p.batches = static_cast<int32_t>(pairs);
    p.a = a;
    p.b = b;
    p.c = to;
    return PutProduct(c, dtype, p);
  }
  int64_t scores() const { return pairs * queries * keys; }
  double flops() const { return 2.0 * static_cast<double>(scores()) * static_cast<double>(depth + width); }
};

StatusOr<Attention> AttentionOf(const NodeView& node) {
  const Shape &query = node.inputs[0].shape, &key = node.inputs[1].shape, &value = node.inputs[2].shape;
  if (node.inputs[3].shape.elements() > 0)
    return Unimplemented("attention with a mask on a GPU; there is that with attribute causal, or none");
  if (node.attr<float>("softcap") > 0) return Unimplemented("attention with a softcap on a GPU; leave it out");
  const int64_t batch = query.dim(0), heads = query.dim(1), time = query.dim(2), shared = key.dim(1);
  Attention t{};
  t.dtype = node.outputs[0].dtype;
  t.depth = query.dim(3);
  t.keys = key.dim(2);
  t.width = value.dim(3);
  t.pairs = batch * shared;
  t.queries = shared == 0 ? 0 : heads / shared * time;
  RIVULET_RETURN_IF_ERROR(CountOf(t.scores()).status());
  RIVULET_ASSIGN_OR_RETURN(t.rows.rows, CountOf(batch * heads * time));
  t.rows.time = static_cast<int32_t>(std::max<int64_t>(time, 1));
  t.rows.keys = static_cast<int32_t>(t.keys);
  t.rows.width = static_cast<int32_t>(t.width);
  const bool causal = node.attr<bool>("causal");
  const int64_t offset = std::clamp(node.attr<int64_t>("causal_offset"), -time, t.keys);
  t.rows.first_visible = static_cast<int32_t>(causal ? offset + 1 : t.keys);
  t.rows.further = causal ? 1 : 0;
  t.rows.scale = node.attr<float>("scale") != 0 ? static_cast<double>(node.attr<float>("scale"))
                                                : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(t.depth, 1)));
  return t;
}

template <typename T>
StatusOr<Prepared> PrepareAttention(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Attention t, AttentionOf(node));
  Prepared prepared = Launching(
      [t](const GpuContext& c) {
        if (t.rows.rows == 0) return absl::OkStatus();
        const LaneSpan<const void> scores = SpanOf<const void>(c.scratch);
        RIVULET_RETURN_IF_ERROR(t.PutPairs(c, ProductOfMatrices(t.queries, t.keys, t.depth, false, true),
                                           InputOf<void>(c, 0), InputOf<void>(c, 1), SpanOf<void>(c.scratch)));
        AttentionArguments a = t.rows;
        a.scores = SpanOf<void>(c.scratch);
        a.log_sum = OutputOf<void>(c, 1);
        RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("attention_softmax_{}", kTypeText<T>), a));
        return t.PutPairs(c, ProductOfMatrices(t.queries, t.width, t.keys, false, false), scores, InputOf<void>(c, 2),
                          OutputOf<void>(c, 0));
      },
      t.flops());
  prepared.scratch_bytes = static_cast<size_t>(t.scores()) * sizeof(T);
  return prepared;
}

template <typename T>
Status AttentionBackward(const GpuContext& c, const Attention& t) {
  const size_t behind = static_cast<size_t>(t.scores()) * sizeof(T);
  const LaneSpan<const void> query = InputOf<void>(c, 0), key = InputOf<void>(c, 1), value = InputOf<void>(c, 2);
  const LaneSpan<const void> output_grad = InputOf<void>(c, 6);
  const auto scores = SpanOf<const void>(c.scratch), gradients = SpanOf<const void>(c.scratch, behind);
  RIVULET_RETURN_IF_ERROR(
      t.PutPairs(c, ProductOfMatrices(t.queries, t.keys, t.depth, false, true), query, key, SpanOf<void>(c.scratch)));
  RIVULET_RETURN_IF_ERROR(t.PutPairs(c, ProductOfMatrices(t.queries, t.keys, t.width, false, true), output_grad, value,
                                     SpanOf<void>(c.scratch, behind)));
  if (t.rows.rows > 0) {
    AttentionArguments a = t.rows;
    a.scores = SpanOf<void>(c.scratch);
    a.gradients = SpanOf<void>(c.scratch, behind);
    a.output = InputOf<void>(c, 4);
    a.log_sums = InputOf<void>(c, 5);
    a.output_grad = output_grad;
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("attention_gradient_{}", kTypeText<T>), a));
  }
  RIVULET_RETURN_IF_ERROR(
      t.PutPairs(c, ProductOfMatrices(t.queries, t.depth, t.keys, false, false), gradients, key, OutputOf<void>(c, 0)));
  RIVULET_RETURN_IF_ERROR(t.PutPairs(c, ProductOfMatrices(t.keys, t.depth, t.queries, true, false), gradients, query,
                                     OutputOf<void>(c, 1)));
  return t.PutPairs(c, ProductOfMatrices(t.keys, t.width, t.queries, true, false), scores, output_grad,
                    OutputOf<void>(c, 2));
}

template <typename T>
StatusOr<Prepared> PrepareAttentionBackward(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Attention t, AttentionOf(node));
  Prepared prepared = Launching([t](const GpuContext& c) { return AttentionBackward<T>(c, t); }, 2.5 * t.flops());
  prepared.scratch_bytes = 2 * static_cast<size_t>(t.scores()) * sizeof(T);
  return prepared;
}

RIVULET_KERNEL("ScaledDotProductAttention", Device::kCuda, float, PrepareAttention<float>);
RIVULET_KERNEL("ScaledDotProductAttention", Device::kCuda, double, PrepareAttention<double>);
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCuda, float, PrepareAttentionBackward<float>);
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCuda, double, PrepareAttentionBackward<double>);

}  // namespace
}  // namespace rivulet::gpu
