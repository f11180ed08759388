// Scaled dot-product attention and its backward pass: products of all heads at once, with row kernels on the scores in
// between. Heads that share keys are adjacent, so that they are rows of one product.
#include "engine/kernels/cuda/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/kernels/cuda/product_launch.h"

namespace rivulet::gpu {
namespace {

struct Attention {
  AttentionArguments rows;
  AttentionMaskGradientArguments mask_gradient;  // without elements if there is no gradient of the mask
  DType dtype;
  int64_t pairs;    // number of (example, group of heads that share keys)
  int64_t queries;  // per pair
  int64_t keys, depth, width;

  // [queries, columns] = a · b for every pair; turned: a is transposed, [depth, queries]. Sizes are those of one pair.
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

bool IsGiven(const TensorSpec& mask) { return mask.shape.elements() > 0; }

AttentionMask MaskOf(const TensorSpec& mask, int64_t heads) {
  AttentionMask m{};
  if (!IsGiven(mask)) return m;
  m.given = 1;
  m.is_bool = mask.dtype == DType::kBool ? 1 : 0;
  m.heads = static_cast<int32_t>(heads);
  int32_t* const strides[4] = {&m.batch, &m.head, &m.row, &m.key};
  int64_t stride = 1;
  for (int axis = mask.shape.rank() - 1; axis >= 0; --axis) {
    if (mask.shape.dim(axis) > 1) *strides[4 - mask.shape.rank() + axis] = static_cast<int32_t>(stride);
    stride *= mask.shape.dim(axis);
  }
  return m;
}

AttentionMaskGradientArguments MaskGradientOf(const TensorSpec& mask, const std::array<int64_t, 4>& sizes) {
  AttentionMaskGradientArguments a{};
  if (!IsGiven(mask) || mask.dtype == DType::kBool) return a;
  a.elements = static_cast<int32_t>(mask.shape.elements());
  for (int axis = 0; axis < 4; ++axis) {
    const int own = axis - (4 - mask.shape.rank());
    a.dims[axis] = own < 0 ? 1 : static_cast<int32_t>(mask.shape.dim(own));
    a.sizes[axis] = static_cast<int32_t>(sizes[static_cast<size_t>(axis)]);
  }
  return a;
}

StatusOr<Attention> AttentionOf(const NodeView& node) {
  const Shape &query = node.inputs[0].shape, &key = node.inputs[1].shape, &value = node.inputs[2].shape;
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
  t.rows.softcap = static_cast<double>(node.attr<float>("softcap"));
  t.rows.mask = MaskOf(node.inputs[3], heads);
  t.mask_gradient = MaskGradientOf(node.inputs[3], {batch, heads, time, t.keys});
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
        if (a.mask.given != 0) a.mask.data = InputOf<void>(c, 3);
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
    if (a.mask.given != 0) a.mask.data = InputOf<void>(c, 3);
    if (t.mask_gradient.elements > 0) a.of_mask = SpanOf<void>(c.scratch, 2 * behind);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("attention_gradient_{}", kTypeText<T>), a));
  }
  if (t.mask_gradient.elements > 0) {
    AttentionMaskGradientArguments a = t.mask_gradient;
    a.of_mask = SpanOf<const void>(c.scratch, 2 * behind);
    a.gradient = OutputOf<void>(c, 3);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("attention_mask_gradient_{}", kTypeText<T>), a));
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
  const size_t matrices = t.mask_gradient.elements > 0 ? 3 : 2;
  prepared.scratch_bytes = matrices * static_cast<size_t>(t.scores()) * sizeof(T);
  return prepared;
}

RIVULET_KERNEL("ScaledDotProductAttention", Device::kCuda, float, PrepareAttention<float>);
RIVULET_KERNEL("ScaledDotProductAttention", Device::kCuda, double, PrepareAttention<double>);
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCuda, float, PrepareAttentionBackward<float>);
RIVULET_KERNEL("ScaledDotProductAttentionGrad", Device::kCuda, double, PrepareAttentionBackward<double>);

}  // namespace
}  // namespace rivulet::gpu
