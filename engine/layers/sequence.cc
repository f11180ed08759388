// Layers over sequences [batch, positions, features]: recurrent ones, attention, places.
#include "engine/layers/attention.h"
#include "engine/layers/layers.h"
#include "engine/layers/recurrent.h"

namespace rivulet {
namespace {

// Keras' unit_forget_bias: gates i, f, c, o begin at 0, 1, 0, 0.
Initializer UnitForgetBias() {
  return Initializer("unit_forget_bias", [](const Scope& scope, DType dtype, const Shape& shape) {
    Tensor bias(DType::kFloat32, shape);
    const std::span<float> values = bias.flat<float>();
    std::ranges::fill(values.subspan(values.size() / 4, values.size() / 4), 1.0f);
    const Output value = scope.Const(std::move(bias), "value");
    return dtype == DType::kFloat32 ? value : scope.Op("Cast", {value}, {{"DstT", dtype}});
  });
}

int64_t LastDim(const Shape& shape) { return shape.dim(shape.rank() - 1); }

// Suffix of a layer's variable names: the backward half of a bidirectional layer has separate variables.
std::string Named(bool backward, std::string_view variable) {
  return backward ? fmt::format("backward_{}", variable) : std::string(variable);
}

}  // namespace

Output Layers::Recurrent(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options,
                         const RecurrentCell& cell) {
  if (!Check(name, x, 3, cell.kind)) return {};
  const Scope layer = scope_.SubScope(name);
  const bool both = options.direction == "bidirectional";
  if (!both && options.direction != "forward" && options.direction != "reverse") {
    scope_.Fail(InvalidArgument(
        "layer '{}' ({}) has the direction '{}', which is not one of forward, reverse and bidirectional", name,
        cell.kind, options.direction));
    return {};
  }
  std::vector<Output> results;
  for (int half = 0; half < (both ? 2 : 1); ++half) {
    const bool backward = half == 1;
    const auto weight = [&](std::string_view variable, Shape shape, const Initializer& initializer) {
      return Weight(layer, name, Named(backward, variable), shape, initializer);
    };
    const int64_t width = cell.gates * units;
    RecurrentInputs inputs;
    inputs.x = x;
    inputs.kernel = weight("kernel", Shape{LastDim(x.shape()), width}, options.kernel);
    inputs.recurrent_kernel = weight("recurrent_kernel", Shape{units, width}, options.recurrent_kernel);
    inputs.bias = weight("bias", Shape{width}, cell.gates == 4 ? UnitForgetBias() : Zeros());
    if (cell.gates == 3 && options.reset_after) inputs.recurrent_bias = weight("recurrent_bias", Shape{width}, Zeros());
    RecurrentOptions walk;
    walk.reverse = backward || options.direction == "reverse";
    walk.activation = options.activation;
    walk.output_activation = options.activation;
    walk.recurrent_activation = options.recurrent_activation;
    walk.reset_after = options.reset_after;
    if (!scope_.status().ok()) return {};
    const RecurrentOutputs out = cell.build(layer.SubScope(backward ? "backward" : "forward"), inputs, walk);
    results.push_back(options.sequences ? out.output : out.final_h);
  }
  if (!both) return results[0];
  results.push_back(layer.Const(Tensor::Scalar<int32_t>(-1), "axis"));
  return layer.Op("ConcatV2", results);
}

Output Layers::Lstm(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options) {
  return Recurrent(name, x, units, options, {"lstm", 4, BuildLstm});
}

Output Layers::Gru(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options) {
  return Recurrent(name, x, units, options, {"gru", 3, BuildGru});
}

Output Layers::SimpleRnn(std::string_view name, Output x, int64_t units, const RecurrentLayerOptions& options) {
  return Recurrent(name, x, units, options, {"simple_rnn", 1, BuildSimpleRnn});
}

// Queries, keys and values come from one product three times as wide: the input is read once, and one kernel is the
// variable.
Output Layers::SelfAttention(std::string_view name, Output x, int64_t heads, bool causal) {
  if (!Check(name, x, 3, "self_attention")) return {};
  const int64_t width = LastDim(x.shape());
  if (heads < 1 || width % heads != 0) {
    scope_.Fail(
        InvalidArgument("layer '{}' (self_attention) cannot divide {} features into {} heads", name, width, heads));
    return {};
  }
  const Scope layer = scope_.SubScope(name);
  const auto dense = [&](const Scope& scope, std::string_view part, Output rows, int64_t units) {
    const Output kernel = Weight(layer, name, fmt::format("{}/kernel", part), Shape{width, units}, GlorotUniform());
    const Output bias = Weight(layer, name, fmt::format("{}/bias", part), Shape{units}, Zeros());
    return SequenceProduct(scope, rows, kernel, bias);
  };
  const Output projected = dense(layer, "query_key_value", x, 3 * width);
  Node* parts = layer.AddNode("Split", {layer.Const(Tensor::Scalar<int32_t>(2), "axis"), projected},
                              {{"num_split", int64_t{3}}}, "split");
  if (parts == nullptr) return {};
  AttentionOptions options;
  options.heads = heads;
  options.causal = causal;
  const Output attended = MultiHeadAttention(layer, parts->output(0), parts->output(1), parts->output(2), options);
  return dense(layer.SubScope("output"), "output", attended, width);
}

Output Layers::Positions(std::string_view name, Output x, const Initializer& initializer) {
  if (!Check(name, x, 3, "positions")) return {};
  const Scope layer = scope_.SubScope(name);
  return layer.Op("AddV2",
                  {x, Weight(layer, name, "positions", Shape{x.shape().dim(1), x.shape().dim(2)}, initializer)});
}

}  // namespace rivulet
