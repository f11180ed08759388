// Softmax regression, 784-10: 7,850 parameters.
#include "engine/presets/preset_list.h"
#include "engine/presets/preset_options.h"

namespace rivulet {

StatusOr<ModelDef> LogisticRegression(const PresetOptions& options) {
  return Classifier(InputOr(options, {28, 28, 1}), [&](Layers& layers, Output image) {
    const Output x = layers.Flatten("flatten", image);
    return layers.Dense("dense1", x, ClassesOr(options, 10));
  });
}

}  // namespace rivulet
