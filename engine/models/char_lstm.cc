// The character model of federated Shakespeare: embedding of 8, two LSTMs of 256, a softmax over 90 characters at each
// of 80 positions (McMahan et al. 2017; the form of Reddi et al., "Adaptive federated optimization", 2021).
#include "engine/data/characters.h"
#include "engine/data/shakespeare.h"
#include "engine/models/next_token.h"
#include "engine/models/preset_list.h"
#include "engine/models/variables.h"
#include "engine/ops/recurrent.h"

namespace rivulet {
namespace {

constexpr int64_t kEmbedding = 8, kUnits = 256;

// Keras' unit_forget_bias: gates i, f, c, o begin at 0, 1, 0, 0.
Initializer UnitForgetBias() {
  return Initializer("unit_forget_bias", [](const Scope& scope, DType dtype, const Shape& shape) {
    Tensor bias(DType::kFloat32, shape);
    const size_t units = bias.flat<float>().size() / 4;
    std::fill_n(bias.flat<float>().begin() + static_cast<std::ptrdiff_t>(units), units, 1.0f);
    const Output value = scope.Const(std::move(bias), "unit_forget_bias");
    return dtype == DType::kFloat32 ? value : scope.Op("Cast", {value}, {{"DstT", dtype}});
  });
}

Output Lstm(const Scope& scope, std::string_view name, Output x, int64_t in) {
  const Scope layer = scope.SubScope(name);
  RecurrentInputs inputs;
  inputs.x = x;
  inputs.kernel = Variable(layer, "kernel", Shape{in, 4 * kUnits}, GlorotUniform());
  inputs.recurrent_kernel = Variable(layer, "recurrent_kernel", Shape{kUnits, 4 * kUnits}, GlorotUniform());
  inputs.bias = Variable(layer, "bias", Shape{4 * kUnits}, UnitForgetBias());
  return BuildLstm(layer, inputs).output;
}

Output Body(const Scope& scope, Output tokens) {
  const Scope embedding = scope.SubScope("embedding");
  const Output table = Variable(embedding, "embeddings", Shape{kCharacters, kEmbedding}, RandomUniform());
  Output x = EmbeddingRows(embedding, table, tokens);
  x = Lstm(scope, "lstm1", x, kEmbedding);
  x = Lstm(scope, "lstm2", x, kUnits);
  const Scope dense = scope.SubScope("dense");
  const Output kernel = Variable(dense, "kernel", Shape{kUnits, kCharacters}, GlorotUniform());
  return SequenceProduct(dense, x, kernel, Variable(dense, "bias", Shape{kCharacters}, Zeros()));
}

}  // namespace

StatusOr<ModelDef> CharLstm(const PresetOptions&) { return NextTokenModel(kCharacters, kWindowLength, kPadding, Body); }

}  // namespace rivulet
