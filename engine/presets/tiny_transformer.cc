// A small decoder over characters: embedding with learnt positions, two pre-norm blocks of causal attention and a GELU
// network (Radford et al., "Language models are unsupervised multitask learners", 2019), and the embedding again as
// output (Press and Wolf, "Using the output embedding to improve language models", 2017).
//
// Parameters: 90 · 64 embedding + 80 · 64 positions + 2 · (128 norm + 64 · 192 + 192 query, key and value + 64 · 64 +
// 64 output + 128 norm + 64 · 256 + 256 + 256 · 64 + 64 network) + 128 norm = 110,976.
#include "engine/datasets/characters.h"
#include "engine/datasets/shakespeare.h"
#include "engine/presets/next_token.h"
#include "engine/presets/preset_list.h"

namespace rivulet {
namespace {

constexpr int64_t kWidth = 64, kHeads = 4, kHidden = 256;
constexpr int kBlocks = 2;

Output Body(Layers& layers, Output tokens) {
  Output x = layers.Embedding("embedding", tokens, kCharacters, kWidth, RandomNormal(0, 0.02));
  const Scope& scope = layers.scope();
  x = scope.Op("AddV2", {x, layers.Weight(scope, "embedding", "embedding/positions", Shape{kWindowLength, kWidth},
                                          RandomNormal(0, 0.02))});
  for (int i = 1; i <= kBlocks; ++i) {
    const auto name = [&](std::string_view part) { return fmt::format("block{}/{}", i, part); };
    Output inner = layers.LayerNorm(name("norm1"), x);
    inner = layers.SelfAttention(name("attention"), inner, kHeads, /*causal=*/true);
    x = layers.Add(name("sum1"), x, inner);
    inner = layers.LayerNorm(name("norm2"), x);
    inner = layers.Dense(name("hidden"), inner, kHidden);
    inner = scope.Op("Gelu", {inner}, {}, name("gelu"));
    inner = layers.Dense(name("output"), inner, kWidth);
    x = layers.Add(name("sum2"), x, inner);
  }
  x = layers.LayerNorm("norm", x);

  const Scope output = scope.SubScope("output");
  const auto ints = [&](std::vector<int32_t> values, std::string_view name) {
    return output.Const(
        Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)), name);
  };
  const Output table = layers.Weight(output, "embedding", "embeddings", Shape{kCharacters, kWidth}, Zeros());
  const Output rows = output.Op("Reshape", {x, ints({-1, kWidth}, "rows")});
  const Output logits = output.Op("MatMul", {rows, table}, {{"transpose_b", true}});
  return output.Op("Reshape", {logits, ints({-1, kWindowLength, kCharacters}, "shape")});
}

}  // namespace

StatusOr<ModelDef> TinyTransformer(const PresetOptions& options) {
  return NextTokenModel(kCharacters, kWindowLength, kPadding, Body, options.metrics);
}

}  // namespace rivulet
