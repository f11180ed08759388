// Attention, composed: ONNX has an operator for it since opset 23 only.
#include <cmath>

#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

// A size of a value as an int64 vector of one element.
Value Dim(const ExportContext& n, const Value& x, int64_t known, int64_t axis) {
  return known != kUnknownDim ? n.Ints({known}) : n.Op("Gather", {n.Op("Shape", {x}), n.Ints({axis})});
}

// 0, 1, … below a size that may be known only when the model runs.
Value Positions(const ExportContext& n, const Value& x, int64_t known, int64_t axis) {
  if (known != kUnknownDim) {
    std::vector<int64_t> values(static_cast<size_t>(known));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
    return n.Ints(values);
  }
  return n.Op("Range", {n.Int(0), n.Squeeze(Dim(n, x, known, axis), {0}), n.Int(1)});
}

// One head of key or value for each of the query's, consecutive ones sharing.
Value Repeated(const ExportContext& n, int i, int64_t heads) {
  const Shape& shape = n.shape(i);
  const Value x = n.input(i);
  if (shape.dim(1) == heads) return x;
  const int64_t share = heads / shape.dim(1);
  const Value spread =
      n.Op("Tile", {n.Unsqueeze(x, {2}), n.Ints({1, 1, share, 1, 1})});  // [batch, shared, share, keys, depth]
  const Value dims = n.Concat(
      {Dim(n, x, shape.dim(0), 0), n.Ints({heads}), Dim(n, x, shape.dim(2), 2), Dim(n, x, shape.dim(3), 3)}, 0);
  return n.Op("Reshape", {spread, dims});
}

Status Attention(ExportContext& n) {
  RIVULET_RETURN_IF_ERROR(n.RefuseOutput(1, "which the backward pass needs"));
  const Shape &query = n.shape(0), &key = n.shape(1), &value = n.shape(2);
  const DType dtype = n.dtype(0);
  if (!query.known_rank() || !key.known_rank() || !value.known_rank() || query.dim(1) == kUnknownDim ||
      key.dim(1) == kUnknownDim || value.dim(1) == kUnknownDim || query.dim(3) == kUnknownDim)
    return FailedPrecondition("heads and their depth must be known, not {} and {}", query.ToString(), key.ToString());
  if (key.dim(1) < 1 || query.dim(1) % key.dim(1) != 0)
    return InvalidArgument("{} heads cannot share {}", query.dim(1), key.dim(1));
  float scale = n.attr<float>("scale");
  if (scale == 0) scale = 1.0f / std::sqrt(static_cast<float>(query.dim(3)));
  const Value q = n.Op("Mul", {n.input(0), n.Scalar(dtype, scale)});
  const Value k = Repeated(n, 1, query.dim(1)), v = Repeated(n, 2, query.dim(1));
  Value scores = n.Op("MatMul", {q, n.Transpose(k, {0, 1, 3, 2})});
  if (const float softcap = n.attr<float>("softcap"); softcap > 0) {
    const Value cap = n.Scalar(dtype, softcap);
    scores = n.Op("Mul", {n.Op("Tanh", {n.Op("Div", {scores, cap})}), cap});
  }
  const Value never = n.Scalar(dtype, -std::numeric_limits<double>::infinity());
  bool hides_all = false;  // a query may see no key at all
  if (!n.IsLeftOut(3)) {
    hides_all = true;
    scores =
        n.dtype(3) == DType::kBool ? n.Op("Where", {n.input(3), scores, never}) : n.Op("Add", {scores, n.input(3)});
  }
  if (n.attr<bool>("causal")) {
    const int64_t offset = n.attr<int64_t>("causal_offset");
    hides_all = hides_all || offset < 0;
    Value last = Positions(n, n.input(0), query.dim(2), 2);
    if (offset != 0) last = n.Op("Add", {last, n.Int(offset)});
    const Value seen =
        n.Op("LessOrEqual", {Positions(n, n.input(1), key.dim(2), 2), n.Unsqueeze(last, {1})});  // [time, keys]
    scores = n.Op("Where", {seen, scores, never});
  }
  Value weights = n.Op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (hides_all) weights = n.Op("Where", {n.Op("IsNaN", {weights}), n.Scalar(dtype, 0), weights});
  n.set_output(0, n.Op("MatMul", {weights, v}));
  return absl::OkStatus();
}
RIVULET_ONNX_EXPORT("ScaledDotProductAttention", Attention);

}  // namespace
}  // namespace rivulet::onnx
