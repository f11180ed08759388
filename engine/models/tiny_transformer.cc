// A small decoder over characters: embedding with learnt positions, two pre-norm blocks of causal attention and a GELU
// network (Radford et al., "Language models are unsupervised multitask learners", 2019), and the embedding again as
// output (Press and Wolf, "Using the output embedding to improve language models", 2017).
//
// Parameters: 90 · 64 embedding + 80 · 64 positions + 2 · (128 norm + 64 · 192 + 192 query, key and value + 64 · 64 +
// 64 output + 128 norm + 64 · 256 + 256 + 256 · 64 + 64 network) + 128 norm = 110,976.
#include "engine/data/characters.h"
#include "engine/data/shakespeare.h"
#include "engine/models/next_token.h"
#include "engine/models/preset_list.h"
#include "engine/models/variables.h"
#include "engine/ops/attention.h"
#include "engine/ops/recurrent.h"

namespace rivulet {
namespace {

constexpr int64_t kWidth = 64, kHeads = 4, kHidden = 256;
constexpr int kBlocks = 2;

Output Dense(const Scope& scope, std::string_view name, Output x, int64_t in, int64_t units) {
  const Scope layer = scope.SubScope(name);
  const Output kernel = Variable(layer, "kernel", Shape{in, units}, GlorotUniform());
  return SequenceProduct(layer, x, kernel, Variable(layer, "bias", Shape{units}, Zeros()));
}

Output Norm(const Scope& scope, std::string_view name, Output x) {
  const Scope layer = scope.SubScope(name);
  const Output scale = Variable(layer, "gamma", Shape{kWidth}, Ones());
  return layer.Op("LayerNorm", {x, scale, Variable(layer, "beta", Shape{kWidth}, Zeros())});
}

Output Attention(const Scope& scope, Output x) {
  const Scope layer = scope.SubScope("attention");
  const Output all = Dense(layer, "query_key_value", x, kWidth, 3 * kWidth);
  Node* parts = layer.AddNode("Split", {layer.Const(Tensor::Scalar<int32_t>(2), "axis"), all},
                              {{"num_split", int64_t{3}}}, "split");
  if (parts == nullptr) return {};
  AttentionOptions options;
  options.heads = kHeads;
  options.causal = true;
  const Output attended = MultiHeadAttention(layer, parts->output(0), parts->output(1), parts->output(2), options);
  return Dense(layer, "output", attended, kWidth, kWidth);
}

Output Body(const Scope& scope, Output tokens) {
  const Scope embedding = scope.SubScope("embedding");
  const Output table = Variable(embedding, "embeddings", Shape{kCharacters, kWidth}, RandomNormal(0, 0.02));
  const Output positions = Variable(embedding, "positions", Shape{kWindowLength, kWidth}, RandomNormal(0, 0.02));
  Output x = embedding.Op("AddV2", {EmbeddingRows(embedding, table, tokens), positions});
  for (int i = 1; i <= kBlocks; ++i) {
    const Scope block = scope.SubScope(fmt::format("block{}", i));
    x = block.Op("AddV2", {x, Attention(block, Norm(block, "norm1", x))});
    Output hidden = Dense(block, "hidden", Norm(block, "norm2", x), kWidth, kHidden);
    hidden = block.Op("Gelu", {hidden});
    x = block.Op("AddV2", {x, Dense(block, "output", hidden, kHidden, kWidth)});
  }
  x = Norm(scope, "norm", x);
  const Scope output = scope.SubScope("output");
  const auto ints = [&](std::vector<int32_t> values, std::string_view name) {
    return output.Const(
        Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)), name);
  };
  const Output rows = output.Op("Reshape", {x, ints({-1, kWidth}, "rows")});
  const Output logits = output.Op("MatMul", {rows, table}, {{"transpose_b", true}});
  return output.Op("Reshape", {logits, ints({-1, kWindowLength, kCharacters}, "shape")});
}

}  // namespace

StatusOr<ModelDef> TinyTransformer(const PresetOptions&) {
  return NextTokenModel(kCharacters, kWindowLength, kPadding, Body);
}

}  // namespace rivulet
