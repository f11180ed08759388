#include "engine/layers/recurrent.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rivulet {
namespace {

Output LeftOut(const Scope& scope, DType dtype, std::string_view name) {
  return scope.Const(Tensor(dtype, Shape{0}), name);
}

Output Or(const Scope& scope, Output given, DType dtype, std::string_view name) {
  return given ? given : LeftOut(scope, dtype, name);
}

Output Ints(const Scope& scope, std::vector<int32_t> values, std::string_view name) {
  return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)),
                     name);
}

AttrMap AttrsOf(const RecurrentOptions& options) {
  return {{"time_major", options.time_major},
          {"reverse", options.reverse},
          {"activation", options.activation},
          {"clip", options.clip}};
}

}  // namespace

// One product of all steps with the kernel instead of one per step: it is most of the layer's arithmetic, and a large
// product runs at the machine's peak where many small ones do not.
Output SequenceProduct(const Scope& scope, Output x, Output kernel, Output bias) {
  if (!x || !kernel) return {};
  const auto dim = [](Output of, int axis) {
    return of.shape().known_rank() && of.shape().rank() > axis ? of.shape().dim(axis) : kUnknownDim;
  };
  // Axes [begin, end) of the shape, known or asked for in the graph.
  const auto sizes = [&](Output of, int32_t begin, int32_t end) {
    std::vector<int32_t> known;
    for (int axis = begin; axis < end; ++axis) known.push_back(static_cast<int32_t>(dim(of, axis)));
    if (std::ranges::find(known, -1) == known.end()) return Ints(scope, std::move(known), "sizes");
    return scope.Op("StridedSlice", {scope.Op("Shape", {of}), Ints(scope, {begin}, "begin"), Ints(scope, {end}, "end"),
                                     Ints(scope, {1}, "stride")});
  };
  const auto joined = [&](Output first, Output second, std::string_view name) {
    return scope.Op("ConcatV2", {first, second, scope.Const(Tensor::Scalar<int32_t>(0), "axis")}, {}, name);
  };
  const int64_t in = dim(x, 2), out = dim(kernel, 1), a = dim(x, 0), b = dim(x, 1);
  const Output flat = in != kUnknownDim ? Ints(scope, {-1, static_cast<int32_t>(in)}, "flat_shape")
                                        : joined(Ints(scope, {-1}, "rows"), sizes(x, 2, 3), "flat_shape");
  // One size may be left to Reshape, so that the others stay known.
  const Output shape =
      out != kUnknownDim && (a != kUnknownDim || b != kUnknownDim)
          ? Ints(scope, {static_cast<int32_t>(a), static_cast<int32_t>(b), static_cast<int32_t>(out)}, "shape")
          : joined(sizes(x, 0, 2), sizes(kernel, 1, 2), "shape");
  Output product = scope.Op("MatMul", {scope.Op("Reshape", {x, flat}, {}, "flat"), kernel});
  if (bias) product = scope.Op("BiasAdd", {product, bias});
  return scope.Op("Reshape", {product, shape}, {}, "projection");
}

RecurrentOutputs BuildLstm(const Scope& scope, const RecurrentInputs& in, const RecurrentOptions& options) {
  if (!in.x) return {};
  const DType dtype = in.x.dtype();
  const Output bias = in.bias && in.recurrent_bias ? scope.Op("AddV2", {in.bias, in.recurrent_bias})
                                                   : (in.bias ? in.bias : in.recurrent_bias);
  AttrMap attrs = AttrsOf(options);
  attrs["recurrent_activation"] = options.recurrent_activation;
  attrs["output_activation"] = options.output_activation;
  Node* node = scope.AddNode(
      "LSTM",
      {SequenceProduct(scope, in.x, in.kernel, bias), in.recurrent_kernel, Or(scope, in.initial_h, dtype, "no_h"),
       Or(scope, in.initial_c, dtype, "no_c"), Or(scope, in.peephole, dtype, "no_peephole"),
       Or(scope, in.sequence_lengths, DType::kInt32, "no_lengths")},
      std::move(attrs));
  if (node == nullptr) return {};
  return {node->output(0), node->output(1), node->output(2)};
}

RecurrentOutputs BuildGru(const Scope& scope, const RecurrentInputs& in, const RecurrentOptions& options) {
  if (!in.x) return {};
  const DType dtype = in.x.dtype();
  AttrMap attrs = AttrsOf(options);
  attrs["recurrent_activation"] = options.recurrent_activation;
  attrs["reset_after"] = options.reset_after;
  Node* node = scope.AddNode("GRU",
                             {SequenceProduct(scope, in.x, in.kernel, in.bias), in.recurrent_kernel,
                              Or(scope, in.recurrent_bias, dtype, "no_bias"), Or(scope, in.initial_h, dtype, "no_h"),
                              Or(scope, in.sequence_lengths, DType::kInt32, "no_lengths")},
                             std::move(attrs));
  if (node == nullptr) return {};
  return {node->output(0), node->output(1), {}};
}

RecurrentOutputs BuildSimpleRnn(const Scope& scope, const RecurrentInputs& in, const RecurrentOptions& options) {
  if (!in.x) return {};
  const Output bias = in.bias && in.recurrent_bias ? scope.Op("AddV2", {in.bias, in.recurrent_bias})
                                                   : (in.bias ? in.bias : in.recurrent_bias);
  Node* node = scope.AddNode(
      "SimpleRNN",
      {SequenceProduct(scope, in.x, in.kernel, bias), in.recurrent_kernel,
       Or(scope, in.initial_h, in.x.dtype(), "no_h"), Or(scope, in.sequence_lengths, DType::kInt32, "no_lengths")},
      AttrsOf(options));
  if (node == nullptr) return {};
  return {node->output(0), node->output(1), {}};
}

}  // namespace rivulet
