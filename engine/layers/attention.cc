#include "engine/layers/attention.h"

#include <utility>
#include <vector>

namespace rivulet {

Output MultiHeadAttention(const Scope& scope, Output query, Output key, Output value, const AttentionOptions& options) {
  if (!query || !key || !value) return {};
  const int64_t shared = options.key_value_heads == 0 ? options.heads : options.key_value_heads;
  const auto constant = [&](std::vector<int32_t> values) {
    return scope.Const(
        Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)));
  };
  // x reshaped to the first two sizes of `like`, followed by other sizes.
  const auto reshaped = [&](Output x, Output like, std::vector<int32_t> rest) {
    const int64_t a = like.shape().dim(0), b = like.shape().dim(1);
    if (a != kUnknownDim || b != kUnknownDim) {  // one may be left to Reshape, so that the other stays known
      rest.insert(rest.begin(), {static_cast<int32_t>(a), static_cast<int32_t>(b)});
      return scope.Op("Reshape", {x, constant(std::move(rest))});
    }
    const Output leading =
        scope.Op("StridedSlice", {scope.Op("Shape", {like}), constant({0}), constant({2}), constant({1})});
    const Output shape =
        scope.Op("ConcatV2", {leading, constant(std::move(rest)), scope.Const(Tensor::Scalar<int32_t>(0))});
    return scope.Op("Reshape", {x, shape});
  };
  int64_t width = 0;  // of a head of the value
  const auto split = [&](Output x, int64_t heads, std::string_view what) -> Output {
    const Shape& shape = x.shape();
    if (!shape.known_rank() || shape.rank() != 3 || heads <= 0 || shape.dim(2) <= 0 || shape.dim(2) % heads != 0) {
      scope.Fail(InvalidArgument("{} '{}' {} does not divide into {} heads", what, x.name(), shape.ToString(), heads));
      return {};
    }
    width = shape.dim(2) / heads;
    const Output apart = reshaped(x, x, {static_cast<int32_t>(heads), static_cast<int32_t>(width)});
    return scope.Op("Transpose", {apart, constant({0, 2, 1, 3})});
  };
  const Output q = split(query, options.heads, "query"), k = split(key, shared, "key"),
               v = split(value, shared, "value");
  if (!q || !k || !v) return {};
  const Output mask = options.mask ? options.mask : scope.Const(Tensor(DType::kBool, Shape{0}), "no_mask");
  const Output attended =
      scope.Op("ScaledDotProductAttention", {q, k, v, mask},
               {{"causal", options.causal}, {"scale", options.scale}, {"softcap", options.softcap}});
  return reshaped(scope.Op("Transpose", {attended, constant({0, 2, 1, 3})}), query,
                  {static_cast<int32_t>(width * options.heads)});
}

}  // namespace rivulet
