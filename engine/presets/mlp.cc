// 784-200-200-10 with ReLU, 199,210 parameters: the "2NN" of McMahan et al., "Communication-Efficient Learning of Deep
// Networks from Decentralized Data", AISTATS 2017.
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {

StatusOr<ModelDef> Mlp(const PresetOptions& options) {
  return Classifier(InputOr(options, {28, 28, 1}), [&](Layers& layers, Output image) {
    Output x = layers.Flatten("flatten", image);
    x = layers.Dense("dense1", x, 200, {.activation = "relu"});
    x = layers.Dense("dense2", x, 200, {.activation = "relu"});
    return layers.Dense("dense3", x, ClassesOr(options, 10));
  });
}

}  // namespace rivulet
