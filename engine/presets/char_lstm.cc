// The character model of federated Shakespeare: embedding of 8, two LSTMs of 256, a softmax over 90 characters at each
// of 80 positions: 820,522 parameters (McMahan et al. 2017, in the form of Reddi et al., "Adaptive federated
// optimization", 2021).
#include "engine/datasets/characters.h"
#include "engine/datasets/shakespeare.h"
#include "engine/presets/next_token.h"
#include "engine/presets/preset_list.h"

namespace rivulet {

StatusOr<ModelDef> CharLstm(const PresetOptions& options) {
  return NextTokenModel(
      kCharacters, kWindowLength, kPadding,
      [](Layers& layers, Output tokens) {
        Output x = layers.Embedding("embedding", tokens, kCharacters, 8);
        x = layers.Lstm("lstm1", x, 256, {.sequences = true});
        x = layers.Lstm("lstm2", x, 256, {.sequences = true});
        return layers.Dense("dense", x, kCharacters);
      },
      options.metrics);
}

}  // namespace rivulet
