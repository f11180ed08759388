// Scaled dot-product attention with all that ONNX's operator takes, and rotary embeddings.
#include <cmath>
#include <limits>

#include "engine/onnx/operator.h"
#include "engine/onnx/tensor.h"

namespace rivulet::onnx {
namespace {

// [batch, time, heads · width] as [batch, heads, time, width].
Output Heads(const Builder& b, Output x, int64_t heads) {
  if (ShapeOf(x).rank() == 4) return x;
  return b.Transpose(b.Shaped(x, {b.Dim(x, 0), b.Dim(x, 1), b.Int(heads), b.Int(-1)}), {0, 2, 1, 3});
}

struct Attended {
  Output q, k, v;  // [batch, heads, time, width]; k and v include the cache
  Output mask;     // as given, padded to the number of keys; bool or added; or empty
  Output allowed;  // bool, broadcasts to the scores: allowed by causality, window and padding; or empty
  double scale = 1, softcap = 0;
  bool plain_causal = false;  // causality alone, by an offset that is known
  int64_t offset = 0;
};

// Query i is at position i + offset among the keys: after the cached ones, or at the end of the unpadded ones.
Status Restrict(NodeContext& n, Attended& a, Output past, Output lengths) {
  const Builder& b = n.b();
  const int64_t queries = DimOf(a.q, 2), keys = DimOf(a.k, 2);
  const bool causal = n.Flag("is_causal", false);
  const int64_t left = n.Int("left_window_size", -1), right = n.Int("right_window_size", -1);
  if (!causal && left < 0 && right < 0 && !lengths) return absl::OkStatus();
  if (queries == kUnknownDim || keys == kUnknownDim)
    return FailedPrecondition("the number of queries and keys must be known where they are restricted");
  a.offset = past ? DimOf(past, 2) : 0;
  if (a.offset == kUnknownDim) return FailedPrecondition("the number of cached keys must be known");
  if (causal && left < 0 && right < 0 && !lengths) {
    a.plain_causal = true;
    return absl::OkStatus();
  }
  const auto both = [&](Output x) { a.allowed = a.allowed ? b.Op("LogicalAnd", {a.allowed, x}) : x; };
  const Output key = b.Iota(keys, 4, 3);
  Output place = b.Add(b.Iota(queries, 4, 2), b.Int(a.offset));
  if (lengths) {
    const Output count = b.Reshape(b.Cast(lengths, DType::kInt64), {-1, 1, 1, 1});
    if (!past) place = b.Add(b.Iota(queries, 4, 2), b.Sub(count, b.Int(queries)));
    both(b.Less(key, count));
  }
  const Output ahead = b.Sub(key, place);
  if (causal) both(b.Op("LessEqual", {ahead, b.Int(0)}));
  if (left >= 0) both(b.Op("GreaterEqual", {ahead, b.Int(-left)}));
  if (right >= 0) both(b.Op("LessEqual", {ahead, b.Int(right)}));
  return absl::OkStatus();
}

Output CausalMask(const Builder& b, const Attended& a) {
  return b.Op("LessEqual", {b.Iota(DimOf(a.k, 2), 4, 3), b.Add(b.Iota(DimOf(a.q, 2), 4, 2), b.Int(a.offset))});
}

// The addend of the scores; positions that are not visible get -inf. Empty if there is none.
Output Bias(const Builder& b, const Attended& a, DType dtype) {
  const Output zero = b.Scalar(dtype, 0), never = b.Scalar(dtype, -std::numeric_limits<double>::infinity());
  Output bias;
  if (a.mask) bias = TypeOf(a.mask) == DType::kBool ? b.Select(a.mask, zero, never) : b.Cast(a.mask, dtype);
  Output allowed = a.allowed;
  if (a.plain_causal) allowed = CausalMask(b, a);
  if (!allowed) return bias;
  return b.Select(allowed, bias ? bias : zero, never);
}

// Step by step, for the scores that a caller wants to see.
Output Explicit(NodeContext& n, const Attended& a, int64_t mode, DType precision) {
  const Builder& b = n.b();
  const DType dtype = TypeOf(a.q);
  Output k = a.k, v = a.v;
  const int64_t heads = DimOf(a.q, 1), shared = DimOf(a.k, 1);
  if (heads != shared && shared > 0) {
    const auto repeated = [&](Output x) {
      const Output apart = b.Op("Tile", {b.ExpandDims(x, 2), b.Ints({1, 1, heads / shared, 1, 1})});
      return b.Shaped(apart, {b.Dim(x, 0), b.Int(heads), b.Dim(x, 2), b.Dim(x, 3)});
    };
    k = repeated(k);
    v = repeated(v);
  }
  const double root = std::sqrt(a.scale);
  Output scores = b.MatMul(b.Times(a.q, root), b.Times(k, root), false, true);
  Output seen = scores;
  if (a.softcap > 0) scores = b.Times(b.Op("Tanh", {b.Times(scores, 1 / a.softcap)}), a.softcap);
  if (mode == 1) seen = scores;
  const Output bias = Bias(b, a, dtype);
  if (bias) scores = b.Add(scores, bias);
  if (mode == 2) seen = scores;
  const Output wide = b.Cast(scores, precision);
  Output weights = b.Op("Softmax", {wide});
  if (bias) {
    // A query that may see nothing has weights of 0.
    const Output highest = b.Reduce("Max", b.Cast(bias, precision), {ShapeOf(bias).rank() - 1}, true);
    const Output none = b.Equal(highest, b.ScalarLike(highest, -std::numeric_limits<double>::infinity()));
    weights = b.Select(none, b.ScalarLike(weights, 0), weights);
  }
  weights = b.Cast(weights, dtype);
  n.set_output(3, mode == 3 ? weights : seen);
  return b.MatMul(weights, v);
}

Output Fused(const Builder& b, const Attended& a) {
  Output mask = a.mask;
  if (a.allowed) {
    const bool both = mask && TypeOf(mask) == DType::kBool;
    mask = both ? b.Op("LogicalAnd", {mask, a.allowed}) : mask ? Bias(b, a, TypeOf(a.q)) : a.allowed;
  }
  if (mask && ShapeOf(mask).rank() == 1) mask = b.Reshape(mask, {1, 1, 1, -1});
  return b.Op("ScaledDotProductAttention", {a.q, a.k, a.v, mask ? mask : b.Const(Tensor(DType::kBool, Shape{0}))},
              {{"causal", a.plain_causal},
               {"causal_offset", a.offset},
               {"scale", static_cast<float>(a.scale)},
               {"softcap", static_cast<float>(a.softcap)}});
}

Status Attention(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  if (rank != 3 && rank != 4) return InvalidArgument("Q is {}", ShapeOf(n.input(0)).ToString());
  const int64_t heads = n.Int("q_num_heads", 0), shared = n.Int("kv_num_heads", 0);
  if (rank == 3 && (heads < 1 || shared < 1 || heads > (1 << 20) || shared > (1 << 20)))
    return InvalidArgument("q_num_heads {} and kv_num_heads {} are needed for Q {}", heads, shared,
                           ShapeOf(n.input(0)).ToString());
  Attended a{Heads(b, n.input(0), heads), Heads(b, n.input(1), shared), Heads(b, n.input(2), shared)};
  const Output past_key = n.optional_input(4), past_value = n.optional_input(5);
  if (past_key) a.k = b.Concat({past_key, a.k}, 2);
  if (past_value) a.v = b.Concat({past_value, a.v}, 2);
  if (!n.status().ok()) return n.status();
  const int64_t width = DimOf(a.q, 3), keys = DimOf(a.k, 2);
  if (width < 1) return FailedPrecondition("the width of a head must be known, not {}", ShapeOf(a.q).ToString());
  a.scale = n.Float("scale", 1 / std::sqrt(static_cast<double>(width)));
  a.softcap = n.Float("softcap", 0);
  a.mask = n.optional_input(3);
  if (a.mask) {
    const int last = ShapeOf(a.mask).rank() - 1;
    if (last < 0) return InvalidArgument("the mask is a scalar");
    const int64_t masked = DimOf(a.mask, last);
    if (masked != kUnknownDim && keys != kUnknownDim && masked > 1 && masked < keys) {
      std::vector<int64_t> none(static_cast<size_t>(last) + 1, 0), after = none;
      after.back() = keys - masked;
      const bool boolean = TypeOf(a.mask) == DType::kBool;
      a.mask = b.Pad(a.mask, none, after, boolean ? 0 : -std::numeric_limits<double>::infinity());
    }
  }
  RIVULET_RETURN_IF_ERROR(Restrict(n, a, past_key, n.optional_input(6)));
  DType precision = TypeOf(a.q);
  if (n.has_attr("softmax_precision")) {
    RIVULET_ASSIGN_OR_RETURN(precision, DTypeFromOnnx(static_cast<int>(n.Int("softmax_precision", 1))));
  }
  const int64_t mode = n.Int("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return InvalidArgument("qk_matmul_output_mode is {}", mode);
  Output y = n.wants_output(3) ? Explicit(n, a, mode, precision) : Fused(b, a);
  if (rank == 3) {
    const Output rows = b.Transpose(y, {0, 2, 1, 3});
    y = b.Shaped(rows, {b.Dim(rows, 0), b.Dim(rows, 1), b.Int(-1)});
  }
  n.set_output(0, y);
  n.set_output(1, a.k);
  n.set_output(2, a.v);
  return n.status();
}
RIVULET_ONNX("Attention", Attention);

// Pairs of the first `rotary` elements of each head are turned by the angles of their positions.
Status RotaryEmbedding(NodeContext& n) {
  const Builder& b = n.b();
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  const int64_t heads = n.Int("num_heads", 0);
  if (rank != 3 && rank != 4) return InvalidArgument("X is {}", ShapeOf(n.input(0)).ToString());
  if (rank == 3 && heads < 1) return InvalidArgument("num_heads is needed for X {}", ShapeOf(n.input(0)).ToString());
  // [batch, time, heads, width]
  const Output x = n.input(0);
  const Output rows =
      rank == 4 ? b.Transpose(x, {0, 2, 1, 3}) : b.Shaped(x, {b.Dim(x, 0), b.Dim(x, 1), b.Int(heads), b.Int(-1)});
  const int64_t width = rank == 4 ? DimOf(x, 3) : DimOf(x, 2) == kUnknownDim ? kUnknownDim : DimOf(x, 2) / heads;
  const int64_t asked = n.Int("rotary_embedding_dim", 0), rotary = asked > 0 ? asked : width;
  if (width < 1 || rotary < 2 || rotary % 2 != 0 || rotary > width)
    return InvalidArgument("{} of {} elements of a head are turned", rotary, width);
  Output cos = n.input(1), sin = n.input(2);
  if (const Output positions = n.optional_input(3)) {
    cos = b.Op("GatherV2", {cos, positions, b.Int32(0)});
    sin = b.Op("GatherV2", {sin, positions, b.Int32(0)});
  }
  cos = b.ExpandDims(cos, 2);
  sin = b.ExpandDims(sin, 2);
  const bool interleaved = n.Flag("interleaved", false);
  const Output turned = b.Slice(rows, 3, 0, rotary);
  const Output first = interleaved ? b.From(turned, 3, 0, 2) : b.Slice(turned, 3, 0, rotary / 2);
  const Output second = interleaved ? b.From(turned, 3, 1, 2) : b.Slice(turned, 3, rotary / 2, rotary);
  const Output real = b.Sub(b.Mul(cos, first), b.Mul(sin, second)),
               imaginary = b.Add(b.Mul(sin, first), b.Mul(cos, second));
  std::vector<Output> parts;
  if (interleaved) {
    const Output pairs = b.Stack({real, imaginary}, 4);
    parts.push_back(b.Shaped(pairs, {b.Dim(rows, 0), b.Dim(rows, 1), b.Dim(rows, 2), b.Int(rotary)}));
  } else {
    parts = {real, imaginary};
  }
  if (rotary < width) parts.push_back(b.Slice(rows, 3, rotary, width));
  const Output y = b.Concat(parts, 3);
  n.set_output(0, rank == 4 ? b.Transpose(y, {0, 2, 1, 3}) : b.ReshapeLike(y, x));
  return n.status();
}
RIVULET_ONNX("RotaryEmbedding", RotaryEmbedding);

}  // namespace
}  // namespace rivulet::onnx
